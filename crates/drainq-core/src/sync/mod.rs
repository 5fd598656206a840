//! The one door to threads, atomics, locks and parking.
//!
//! No other module of this crate names `std::sync`, `std::thread` or crossbeam.
//! So one `cfg` puts a model checker in their place: `--cfg loom` explores every
//! interleaving under Rust's memory model, `--cfg drainq_shuttle` random schedules.
//!
//! All three stand-ins have one shape: [`Mutex::lock`] returns a guard (no poisoning), and
//! waiting goes through a [`Parker`], whose [`Unparker`] leaves a token that is never lost.
//! Under a model a timed park has no timeout: a wake that only the timeout would have
//! replaced is then found as a deadlock.

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

pub use crossbeam_utils::CachePadded;

pub(crate) use mutants::{full_fence, order, planted};

/// The standard library's own, under a model too: for what a model need not explore.
pub mod plain {
    pub use std::sync::atomic::{AtomicU64, Ordering};
    pub use std::sync::{Arc, Mutex, OnceLock};
    pub use std::thread::{available_parallelism, panicking};
}

/// Runs `test` once on real threads, or in every interleaving under a model checker.
#[cfg(test)]
pub(crate) fn model(test: impl Fn() + Send + Sync + 'static) {
    imp::model(3, test);
}

/// As [`model`], with so many preemptions at most: few, where a model is of something large.
#[cfg(test)]
pub(crate) fn bounded_model(preemptions: usize, test: impl Fn() + Send + Sync + 'static) {
    imp::model(preemptions, test);
}

/// As [`model`], with more preemptions: for protocols small enough, or that need them.
#[cfg(test)]
pub(crate) fn deep_model(test: impl Fn() + Send + Sync + 'static) {
    imp::model(4, test);
}
