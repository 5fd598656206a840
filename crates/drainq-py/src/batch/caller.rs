//! A thread's right to call the callables of a queue; the last right that ends calls `on_close`.
//!
//! The invariants are those of `caller_count.rs`, which counts the rights.

use super::caller_count::{CallerCount, Role};
use super::shared_queue::SharedQueue;
use crate::gil;
use pyo3::prelude::*;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// A thread's right to call the callables of a queue.
pub struct Caller {
    shared: ManuallyDrop<Arc<SharedQueue>>,
    callers: Arc<CallerCount>,
    role: Role,
}

impl Caller {
    /// Adds a caller to those of the queue. Called with the GIL held.
    pub fn new(shared: &Arc<SharedQueue>, role: Role) -> Self {
        let callers = shared.process().callers.clone();
        callers.add(role);
        Self { shared: ManuallyDrop::new(shared.clone()), callers, role }
    }

    /// Returns the queue.
    pub fn shared(&self) -> &Arc<SharedQueue> {
        &self.shared
    }

    fn end(&mut self, py: Python<'_>) {
        if self.role == Role::Balance {
            self.callers.remove(self.role);
        } else if !self.callers.leave_unless_last() {
            self.shared.call_on_close(py);
            self.callers.remove(self.role);
        }
        self.shared.process().waiting_tasks.wake();
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // Without an interpreter there is nothing to call and nothing to give back.
        gil::held(|py| {
            self.end(py);
            // SAFETY: `shared` is not used again.
            unsafe { ManuallyDrop::drop(&mut self.shared) };
        });
    }
}
