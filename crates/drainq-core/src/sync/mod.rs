//! The only module that uses threads, atomics, locks and parking directly.
//!
//! No other module of this crate names `std::sync`, `std::thread` or crossbeam. So one `cfg` replaces all three by a
//! model checker: `--cfg loom` explores every interleaving under Rust's memory model, `--cfg drainq_shuttle` runs
//! random schedules.
//!
//! | file | contents |
//! | --- | --- |
//! | `real.rs` | `std` and crossbeam |
//! | `modelled.rs` | a macro that defines the same names over a model checker; `loom.rs` and `shuttle.rs` call it |
//! | `cell.rs` | a cell of plain memory, with loom's methods |
//! | `mutants.rs` | deliberate faults, by name |
//!
//! All builds share one interface. [`Mutex::lock`] always returns a guard, because no lock is poisoned. A thread waits
//! on a [`Parker`], whose [`Unparker`] leaves a token that is never lost.

#[cfg(any(loom, drainq_shuttle))]
#[macro_use]
mod modelled;

#[cfg(not(loom))]
mod cell;
#[cfg(loom)]
#[path = "loom.rs"]
mod imp;
#[cfg(drainq_shuttle)]
#[path = "shuttle.rs"]
mod imp;
#[cfg(not(any(loom, drainq_shuttle)))]
#[path = "real.rs"]
mod imp;
mod mutants;

pub use imp::{Arc, Backoff, Mutex, MutexGuard, Parker, Unparker, atomic, fence, thread};

#[cfg(not(loom))]
pub use cell::UnsafeCell;
pub use crossbeam_utils::CachePadded;
#[cfg(loom)]
pub use loom::cell::UnsafeCell;

pub(crate) use mutants::{full_fence, order, planted};

/// The standard library's atomics and locks, also under a model checker, for state that no model has to explore.
pub mod plain {
    pub use std::sync::atomic::{AtomicU64, Ordering};
    pub use std::sync::{Arc, Mutex, OnceLock};
    pub use std::thread::panicking;
}

/// Runs `test` 200 times on real threads, in every interleaving under loom, or in random schedules under shuttle.
#[cfg(test)]
pub(crate) fn model(test: impl Fn() + Send + Sync + 'static) {
    imp::model(3, test);
}

/// Runs `test` as [`model`] does, with at most `preemptions` preemptions: few for a large model.
#[cfg(test)]
pub(crate) fn bounded_model(preemptions: usize, test: impl Fn() + Send + Sync + 'static) {
    imp::model(preemptions, test);
}

/// Runs `test` as [`model`] does, with four preemptions instead of three: for single protocols.
#[cfg(test)]
pub(crate) fn deep_model(test: impl Fn() + Send + Sync + 'static) {
    imp::model(4, test);
}
