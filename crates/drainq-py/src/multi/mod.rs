//! The Python face of the multi-queue.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`queue`], [`sub_queue`] | the classes, with the docs that `help()` prints |
//! | `take` | whose turn it is: the core decides, or a Python object |
//! | `blocking` | blocked threads, Ctrl-C |
//! | `awaitable`, `loops` | sleeping tasks, and how they are woken |
//! | [`stats`] | snapshots of the counters |
//! | `handle`, `values` | the core's types with Python objects; arguments |
//!
//! # Invariants
//! 1. Nothing here runs Python code, or drops a Python object, under the core's lock.
//! 2. The core's lock is taken with the GIL held, and given back before that is given up. So a fork,
//!    which Python makes with the GIL held, finds it free and what it guards whole.
//! 3. An item in a sub-queue is visited by the garbage collector through that sub-queue alone.

mod awaitable;
mod blocking;
mod handle;
mod loops;
mod queue;
mod stats;
mod sub_queue;
mod take;
mod values;

pub use awaitable::QueueAwaitable;
pub use queue::MultiQueue;
pub use stats::{MultiQueueStats, SubQueueStats};
pub use sub_queue::SubQueue;
