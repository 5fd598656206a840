//! The stand-ins of shuttle, in the shape of `real.rs`.

pub use shuttle::sync::Arc;
pub use shuttle::sync::atomic::{self, fence};
pub use shuttle::thread;

use std::time::Duration;

/// A lock whose guard needs no `unwrap`.
#[derive(Debug, Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

/// The guard of [`Mutex`].
pub type MutexGuard<'a, T> = shuttle::sync::MutexGuard<'a, T>;

impl<T> Mutex<T> {
    /// A lock around `value`.
    pub fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("a schedule's lock is never poisoned")
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}

#[derive(Debug)]
struct Token {
    set: shuttle::sync::Mutex<bool>,
    wake: shuttle::sync::Condvar,
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
        Self(Arc::new(Token { set: shuttle::sync::Mutex::new(false), wake: shuttle::sync::Condvar::new() }))
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

    /// As [`Parker::park`]: in a schedule time never runs out.
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

/// Yields to the other threads of the schedule at each step.
#[derive(Debug, Default)]
pub struct Backoff;

impl Backoff {
    /// A fresh back-off.
    pub fn new() -> Self {
        Self
    }

    /// Lets another thread run.
    pub fn spin(&self) {
        shuttle::thread::yield_now();
    }

    /// Lets another thread run.
    pub fn snooze(&self) {
        shuttle::thread::yield_now();
    }
}

#[cfg(test)]
pub(crate) fn model(_preemptions: usize, test: impl Fn() + Send + Sync + 'static) {
    let schedules =
        std::env::var("DRAINQ_SCHEDULES").map_or(200, |count| count.parse().expect("a number of schedules"));
    shuttle::check_random(test, schedules);
}
