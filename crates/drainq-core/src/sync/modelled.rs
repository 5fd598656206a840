//! Replaces `real.rs` under a model checker: the same names over the checker's locks and threads.
//!
//! loom and shuttle use the same names for these, so one macro serves both. In a model a timed park has no timeout, so
//! that a lost wake-up shows as a deadlock even if a timeout would have hidden it.

/// Defines the contents of `sync` over the crate `$checker`.
macro_rules! modelled {
    ($checker:ident) => {
        pub use $checker::sync::Arc;
        pub use $checker::sync::atomic::{self, fence};
        pub use $checker::thread;

        use std::time::Duration;

        /// A lock whose guard needs no `unwrap`.
        #[derive(Debug, Default)]
        pub struct Mutex<T>($checker::sync::Mutex<T>);

        /// The guard of [`Mutex`].
        pub type MutexGuard<'a, T> = $checker::sync::MutexGuard<'a, T>;

        impl<T> Mutex<T> {
            /// Makes a lock around `value`.
            pub fn new(value: T) -> Self {
                Self($checker::sync::Mutex::new(value))
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
        struct ParkToken {
            is_left: $checker::sync::Mutex<bool>,
            left: $checker::sync::Condvar,
        }

        /// Blocks one thread until its [`Unparker`] leaves a token.
        #[derive(Debug)]
        pub struct Parker(Arc<ParkToken>);

        /// Wakes the thread of a [`Parker`].
        #[derive(Debug, Clone)]
        pub struct Unparker(Arc<ParkToken>);

        impl Parker {
            /// Makes a parker without a token.
            pub fn new() -> Self {
                let (is_left, left) = ($checker::sync::Mutex::new(false), $checker::sync::Condvar::new());
                Self(Arc::new(ParkToken { is_left, left }))
            }

            /// Returns the handle that wakes the thread of this parker.
            pub fn unparker(&self) -> Unparker {
                Unparker(self.0.clone())
            }

            /// Waits for a token and takes it.
            pub fn park(&self) {
                let mut is_left = self.0.is_left.lock().unwrap();
                while !*is_left {
                    is_left = self.0.left.wait(is_left).unwrap();
                }
                *is_left = false;
            }

            /// Parks as [`Parker::park`] does, because in a model no time passes. With a timeout of zero it only takes
            /// the token, if there is one.
            pub fn park_timeout(&self, timeout: Duration) {
                if timeout.is_zero() {
                    *self.0.is_left.lock().unwrap() = false;
                } else {
                    self.park();
                }
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
                *self.0.is_left.lock().unwrap() = true;
                self.0.left.notify_one();
            }
        }

        /// Yields to the other threads of the model at each step.
        #[derive(Debug, Default)]
        pub struct Backoff;

        impl Backoff {
            /// Makes a back-off at its first step.
            pub fn new() -> Self {
                Self
            }

            /// Lets another thread run.
            pub fn snooze(&self) {
                $checker::thread::yield_now();
            }
        }
    };
}
