//! The native half of the sources: the set queue.

pub mod identity;
mod set_queue;

pub use set_queue::SetQueue;
