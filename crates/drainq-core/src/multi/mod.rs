//! Many keyed queues behind one blocking head.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`queue`] | the handles, `MultiQueue` and `SubQueue`; no algorithm of their own |
//! | `state` | everything under the one lock, and each step on it |
//! | `sub_queue` | what one sub-queue holds |
//! | `shared` | what the handles share: the lock, the clock; who keeps a slot |
//! | `gather`, `held` | bulk gets: nothing is taken until there is enough |
//! | `notify` | which waiters a step has something for |
//! | `settings` | live changes of priority, capacity, weight, reasons |
//! | `stats`, `restart` | snapshots of the counters; a forked child |
//! | [`selector`] | whose turn it is: groups by priority, round-robin by weight |
//! | [`bitmap`] | the next ready place among any number, in a few steps |
//! | [`waiters`] | the kinds of waiters |
//! | [`wait`] | a place in line, given back however the waiting ends |
//! | `blocking` | the blocking calls of a Rust program |
//!
//! One short lock guards it all. No code of the caller's runs under it, so a holder never
//! waits for anything: not for another lock, not for an interpreter.
//!
//! Source: linked-blocking-multi-queue 1.0.0 for what it does; one lock instead of two, the
//! bitmap instead of a scan, and the state that a removed sub-queue keeps are ours.

pub mod bitmap;
mod blocking;
mod gather;
mod held;
#[cfg(test)]
mod models;
mod notify;
pub mod queue;
mod restart;
pub mod selector;
mod settings;
mod shared;
mod state;
mod stats;
mod sub_queue;
#[cfg(test)]
mod tests;
pub mod wait;
pub mod waiters;

pub use crate::wait::thread::WaitingThread;
pub use crate::wait::tickets::Wake;
pub use gather::Gathered;
pub use queue::{MultiQueue, SubQueue};
pub use selector::Order;
pub use shared::MultiShared;
pub use state::{Nothing, PutRefusal, ShutdownMode, SubQueueSettings};
pub use sub_queue::{Counters, Membership, Stats};
pub use wait::{Stalled, Wait};
