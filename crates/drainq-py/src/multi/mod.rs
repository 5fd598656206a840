//! The Python classes of the multi-queue, whose algorithm is in `drainq-core`.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `queue/` | `MultiQueue`, a file for each task: `get`, `get_many`, `done`, `sub_queues` |
//! | `sub_queue/` | `SubQueue`: `put`, `put_async`, `contents`, `settings`, `unique` |
//! | `selection.rs` | chooses the next sub-queue, in the core or by a Python object |
//! | `stats.rs`, `metric_samples.rs` | snapshots of the counters; the metrics |
//! | `label.rs`, `core_types.rs`, `values.rs` | the label of a sub-queue; the core's types; arguments |
//!
//! # Invariants
//! 1. Nothing here runs Python code, or drops a Python object, under the core's lock.
//! 2. The core's lock is taken with the GIL held, and released before the GIL is. Only `metric_samples.rs` takes it
//!    without the GIL, between forks. So a fork finds the lock free and its data consistent.
//! 3. An item in a sub-queue is visited by the garbage collector only through that sub-queue.

mod core_types;
mod label;
mod metric_samples;
mod queue;
mod selection;
mod stats;
mod sub_queue;
mod values;

pub use queue::MultiQueue;
pub use sub_queue::SubQueue;
