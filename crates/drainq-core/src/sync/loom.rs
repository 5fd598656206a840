//! The stand-ins of loom, in the shape of `real.rs`.

pub use loom::sync::Arc;
pub use loom::sync::atomic::{self, fence};
pub use loom::thread;

use std::time::Duration;

/// A lock whose guard needs no `unwrap`.
#[derive(Debug, Default)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

/// The guard of [`Mutex`].
pub type MutexGuard<'a, T> = loom::sync::MutexGuard<'a, T>;

impl<T> Mutex<T> {
    /// A lock around `value`.
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("a model's lock is never poisoned")
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}

#[derive(Debug)]
struct Token {
    set: loom::sync::Mutex<bool>,
    wake: loom::sync::Condvar,
}

/// Blocks one thread until its [`Unparker`] leaves a token.
#[derive(Debug)]
pub struct Parker(Arc<Token>);

/// Wakes the thread of a [`Parker`].
#[derive(Debug, Clone)]
pub struct Unparker(Arc<Token>);

impl Parker {
    /// A parker without a token.
    pub fn new() -> Self {
        Self(Arc::new(Token { set: loom::sync::Mutex::new(false), wake: loom::sync::Condvar::new() }))
    }

    /// The other end.
    pub fn unparker(&self) -> Unparker {
        Unparker(self.0.clone())
    }

    /// Waits for a token and takes it.
    pub fn park(&self) {
        let mut set = self.0.set.lock().unwrap();
        while !*set {
            set = self.0.wake.wait(set).unwrap();
        }
        *set = false;
    }

    /// As [`Parker::park`]: under a model time never runs out.
    pub fn park_timeout(&self, _timeout: Duration) {
        self.park();
    }
}

impl Default for Parker {
    fn default() -> Self {
        Self::new()
    }
}

impl Unparker {
    /// Leaves the token and wakes the parked thread.
    pub fn unpark(&self) {
        *self.0.set.lock().unwrap() = true;
        self.0.wake.notify_one();
    }
}

/// Yields to the other threads of the model at each step.
#[derive(Debug, Default)]
pub struct Backoff;

impl Backoff {
    /// A fresh back-off.
    pub fn new() -> Self {
        Self
    }

    /// Lets another thread run.
    pub fn spin(&self) {
        loom::thread::yield_now();
    }

    /// Lets another thread run.
    pub fn snooze(&self) {
        loom::thread::yield_now();
    }
}

#[cfg(test)]
pub(crate) fn model(preemptions: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = builder.max_branches.max(10_000);
    if builder.preemption_bound.is_none() {
        builder.preemption_bound = Some(preemptions);
    }
    builder.check(test);
}
