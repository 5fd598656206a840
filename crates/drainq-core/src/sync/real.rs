//! The contents of `sync` on real threads: `std` and crossbeam.
//!
//! The locks are those of `std`, which keep no state outside themselves. A thread that waits for a parking_lot lock
//! takes locks of a table that the whole process shares. A fork at that moment would leave them taken in the child, and
//! the child's new locks need the same table. Only with `--cfg drainq_mutants` the locks are parking_lot's, because
//! ThreadSanitizer, under which such builds run, does not see through the locks of `std`.

pub use std::sync::Arc;
pub use std::sync::atomic::{self, fence};
pub use std::thread;

pub use crossbeam_utils::Backoff;
pub use crossbeam_utils::sync::{Parker, Unparker};

#[cfg(drainq_mutants)]
pub use parking_lot::{Mutex, MutexGuard};
#[cfg(not(drainq_mutants))]
use std::sync::{PoisonError, TryLockError};

/// A lock whose guard needs no `unwrap`: a panic of its holder does not poison the lock.
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
