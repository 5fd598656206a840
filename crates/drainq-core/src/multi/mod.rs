//! The multi-queue: many keyed sub-queues behind one blocking get.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`queue`] | the handles, `MultiQueue` and `SubQueue` |
//! | `state` | the state that the lock guards: sub-queues, counters |
//! | `put`, `take` | items in and out |
//! | `bulk_get` | bulk gets: no item is taken until there are enough |
//! | `sub_queue` | the items and counters of one sub-queue |
//! | `shared` | the lock and the clock, which the handles share; the lifetime of a slot |
//! | `notify`, [`waiters`] | notifies the waiters that a step can serve |
//! | `settings` | changes of priority, capacity, weight and reasons while the queue runs |
//! | `stats`, `fork_restart` | snapshots of the counters; a forked child |
//! | [`round_robin_selection`] | whose turn it is: groups by priority, round robin by weight |
//! | [`bitmap`] | the next ready position among any number, in a few steps |
//! | [`wait`] | a wait for items or room, which leaves the waiters however it ends |
//! | `blocking` | the blocking calls of a program in Rust |
//!
//! One short lock guards all of it. Under that lock runs no code of the caller but the closures of calls such as
//! `peek`, which must not block. So the holder waits for nothing: not for another lock, not for an interpreter.
//!
//! Source: the behaviour of linked-blocking-multi-queue 1.0.0. Changed here: one lock instead of two, the bitmap
//! instead of a scan, and a removed sub-queue keeps its state.

pub mod bitmap;
mod blocking;
mod bulk_get;
mod fork_restart;
#[cfg(test)]
mod models;
mod notify;
mod put;
pub mod queue;
pub mod round_robin_selection;
mod settings;
mod shared;
mod state;
mod stats;
mod sub_queue;
mod take;
#[cfg(test)]
mod tests;
pub mod wait;
pub mod waiters;

pub use bulk_get::Gathered;
pub use put::PutRefusal;
pub use queue::{MultiQueue, SubQueue};
pub use round_robin_selection::Order;
pub use shared::MultiShared;
pub use state::{ShutdownMode, SubQueueSettings};
pub use sub_queue::{Counters, Membership, Stats};
pub use take::Nothing;
pub use wait::Wait;
