//! A value that a forked child replaces.
//!
//! # Invariants
//! 1. The pointer comes from `Box::into_raw` and is freed by the cell's `Drop` alone.
//! 2. It changes only in [`ForkCell::replace_in_child`], whose caller is the only thread of
//!    its process; the old value is left alone, for locks in it may be held by threads that
//!    the child does not have.

use std::sync::atomic::{AtomicPtr, Ordering};

/// Holds a value for the life of the cell, or of the process if that forks.
pub struct ForkCell<T>(AtomicPtr<T>);

impl<T> ForkCell<T> {
    /// A cell with this value.
    pub fn new(value: T) -> Self {
        Self(AtomicPtr::new(Box::into_raw(Box::new(value))))
    }

    /// The value.
    #[inline]
    pub fn get(&self) -> &T {
        // SAFETY: the pointer is valid as long as the cell (invariant 1), and a replaced
        // value is never freed (invariant 2).
        unsafe { &*self.0.load(Ordering::Acquire) }
    }

    /// Puts another value in its place and forgets the old one.
    ///
    /// To be called in the child of a fork, before it starts a thread.
    pub fn replace_in_child(&self, value: T) {
        self.0.store(Box::into_raw(Box::new(value)), Ordering::Release);
    }
}

impl<T> Drop for ForkCell<T> {
    fn drop(&mut self) {
        // SAFETY: invariant 1, and `&mut self` says that nobody refers to the value.
        drop(unsafe { Box::from_raw(*self.0.get_mut()) });
    }
}
