//! The contents of `sync` on real threads: `std` and crossbeam.
//!
//! The locks are those of `std`, which keep no state outside themselves. A thread that waits for a parking_lot lock
//! goes through a table of the whole process with locks of its own: a fork at that moment would leave these locks
//! taken in the child, for the child's new locks too. Only under ThreadSanitizer, which does not see through the
//! locks of `std`, the locks are parking_lot's.

pub use std::sync::Arc;
pub use std::sync::atomic::{self, fence};
pub use std::thread;

pub use crossbeam_utils::Backoff;
pub use crossbeam_utils::sync::{Parker, Unparker};

#[cfg(drainq_mutants)]
pub use parking_lot::{Mutex, MutexGuard};
#[cfg(not(drainq_mutants))]
use std::sync::{PoisonError, TryLockError};

/// A lock whose guard needs no `unwrap`: a panic under it leaves it as it is.
#[cfg(not(drainq_mutants))]
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

/// The guard of [`Mutex`].
#[cfg(not(drainq_mutants))]
pub type MutexGuard<'a, T> = std::sync::MutexGuard<'a, T>;

#[cfg(not(drainq_mutants))]
impl<T> Mutex<T> {
    /// Makes a lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(test)]
pub(crate) fn model(_preemptions: usize, test: impl Fn() + Send + Sync + 'static) {
    for _ in 0..200 {
        test();
    }
}
