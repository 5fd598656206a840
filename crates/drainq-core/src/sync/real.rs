//! Real threads: `std`, parking_lot and crossbeam.

pub use std::sync::Arc;
pub use std::sync::atomic::{self, fence};
pub use std::thread;

pub use crossbeam_utils::Backoff;
pub use crossbeam_utils::sync::{Parker, Unparker};
pub use parking_lot::{Mutex, MutexGuard};

#[cfg(test)]
pub(crate) fn model(_preemptions: usize, test: impl Fn() + Send + Sync + 'static) {
    for _ in 0..200 {
        test();
    }
}
