//! The threads that may still call a queue's callables, and the last call: `on_close`.
//!
//! # Invariants
//! 1. A thread that may call a callable of a queue holds a [`Caller`] of it. It is made before the
//!    thread starts, and dropped when the thread will call nothing more; both with the GIL held.
//! 2. The garbage collector is shown the callables while the queue is open and quiet, and again when
//!    there is no caller left; in between it takes them for held from outside. So it can find out
//!    that only they hold the queue. Then it first calls the weak reference on the queue's object
//!    (`queue.rs`), which closes the queue: and as it looks again before it empties anything, it finds
//!    that the callables are held. The queue delivers, its threads end, and the next collection finds
//!    callables that are never called again.
//! 3. Which of the two it is changes with the GIL held only, but for the end of the last caller. A
//!    collection that overlaps this end may take garbage for held, never the reverse.
//! 4. `on_close` is called once for a queue that had threads, after every handler call, on one thread:
//!    the last that drains, or the one that shuts a queue of a pool down.

use super::shared::Shared;
use super::shutdown;
use crate::fork::Generation;
use crate::gil;
use drainq_core::space::Space;
use pyo3::prelude::*;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// What a caller does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Hands out items.
    Drain,
    /// Asks the balancer.
    Balance,
}

/// The callers of one queue in one process. Changed with the GIL held.
pub struct Callers {
    all: AtomicUsize,
    draining: AtomicUsize,
    is_closing: AtomicBool,
    is_closed: AtomicBool,
    /// Calls of shutdown that wait for the end.
    waiting: Space,
}

impl Callers {
    /// No callers, and `on_close` was not called.
    pub fn new() -> Self {
        Self {
            all: AtomicUsize::new(0),
            draining: AtomicUsize::new(0),
            is_closing: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            waiting: Space::new(),
        }
    }

    /// Whether a thread may still call something.
    pub fn are_left(&self) -> bool {
        self.all.load(Ordering::Acquire) > 0
    }

    /// Whether `on_close` was called, or is not going to be.
    fn is_over(&self) -> bool {
        let is_closing = self.is_closing.load(Ordering::Acquire);
        self.is_closed.load(Ordering::Acquire) || (!is_closing && self.draining.load(Ordering::Acquire) == 0)
    }

    /// Waits up to `patience` for that.
    pub fn wait_over(&self, patience: Duration) -> bool {
        let mut line = self.waiting.enlist();
        if !self.is_over() {
            line.wait(patience);
        }
        self.is_over()
    }
}

/// A thread's right to call the callables of a queue.
pub struct Caller {
    shared: ManuallyDrop<Arc<Shared>>,
    callers: Arc<Callers>,
    role: Role,
    made_in: Generation,
}

impl Caller {
    /// One more caller. Called with the GIL held.
    pub fn new(shared: &Arc<Shared>, role: Role) -> Self {
        let callers = shared.process().callers.clone();
        callers.all.fetch_add(1, Ordering::Relaxed);
        if role == Role::Drain {
            callers.draining.fetch_add(1, Ordering::Relaxed);
        }
        Self { shared: ManuallyDrop::new(shared.clone()), callers, role, made_in: Generation::now() }
    }

    /// The queue.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn end(&mut self, py: Python<'_>) {
        if self.made_in.is_past() {
            return;
        }
        if self.role == Role::Drain {
            if self.callers.draining.load(Ordering::Relaxed) == 1 {
                self.shared.tell_closed(py);
            }
            if self.made_in.is_past() {
                shutdown::leave_child(py);
            }
            self.callers.draining.fetch_sub(1, Ordering::Release);
            self.callers.waiting.call_all();
        }
        self.callers.all.fetch_sub(1, Ordering::Release);
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // Without an interpreter there is nothing to call and nothing to give back.
        gil::held(|py| {
            self.end(py);
            // SAFETY: it is not used again.
            unsafe { ManuallyDrop::drop(&mut self.shared) };
        });
    }
}

impl Shared {
    /// Calls `on_close` of everything that has it, unless that was done or items are left.
    pub fn tell_closed(&self, py: Python<'_>) {
        let process = self.process();
        let callers = process.callers.clone();
        if !process.queue.is_drained() || callers.is_closing.swap(true, Ordering::AcqRel) {
            return;
        }
        let made_in = Generation::now();
        process.queue.while_draining(|| {
            let consumer = self.consumer().filter(|consumer| consumer.closes()).map(|consumer| consumer.clone_ref(py));
            for handler in consumer.into_iter().chain(self.closing(py)) {
                if !made_in.is_past() {
                    handler.close(py);
                }
            }
        });
        if !made_in.is_past() {
            callers.is_closed.store(true, Ordering::Release);
            callers.waiting.call_all();
        }
    }
}
