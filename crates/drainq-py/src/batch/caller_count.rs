//! The number of threads that may still call a queue's callables, and whether `on_close` was called.
//!
//! # Invariants
//! 1. A thread that may call a callable of a queue holds a `Caller` of it (`caller.rs`). The `Caller` is
//!    made before the thread starts, and dropped when the thread will call nothing more; both with the
//!    GIL held.
//! 2. The garbage collector is shown the callables while the queue is open and quiet, and again when
//!    there is no caller left; in between they count as held from outside. So the collector can find out
//!    that only the callables hold the queue. Then it first calls the callback of the weak reference on
//!    the queue's object (`shared_queue/mod.rs`), which closes the queue. The collector checks again before it clears
//!    anything, and finds that the callables are held. The queue delivers, its threads end, and the next collection
//!    finds callables that are never called again.
//! 3. What the collector is shown changes only with the GIL held, except at the end of the last caller. A
//!    collection that overlaps this end may take garbage for held, never the reverse.
//!    Without a GIL the collector stops the attached threads meanwhile.
//! 4. `on_close` is called once for a queue that had threads, after every handler call, on one thread:
//!    the last that drains, or the one that shuts down a queue of a shared scheduler.

use drainq_core::wait::waiters::Waiters;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The role of a caller.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Calls handlers.
    Drain,
    /// Calls the balancer.
    Balance,
}

/// The callers of one queue in one process. Changed with the GIL held.
pub struct CallerCount {
    all: AtomicUsize,
    draining: AtomicUsize,
    is_closing: AtomicBool,
    is_closed: AtomicBool,
    /// Calls of shutdown that wait for the end.
    waiting: Waiters,
}

impl CallerCount {
    /// Makes a count of no callers, whose `on_close` was not called.
    pub fn new() -> Self {
        Self {
            all: AtomicUsize::new(0),
            draining: AtomicUsize::new(0),
            is_closing: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            waiting: Waiters::new(),
        }
    }

    /// Counts one more caller.
    pub fn add(&self, role: Role) {
        self.all.fetch_add(1, Ordering::Relaxed);
        if role == Role::Drain {
            self.draining.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts one caller less.
    pub fn remove(&self, role: Role) {
        if role == Role::Drain {
            self.draining.fetch_sub(1, Ordering::Release);
            self.waiting.notify_all();
        }
        self.all.fetch_sub(1, Ordering::Release);
    }

    /// Whether a thread may still call something.
    pub fn are_left(&self) -> bool {
        self.all.load(Ordering::Acquire) > 0
    }

    /// Removes a draining caller, unless it is the last, which must call `on_close` first. Returns true if the caller
    /// was removed.
    pub fn leave_unless_last(&self) -> bool {
        let fewer = |draining: usize| (draining > 1).then(|| draining - 1);
        let left = self.draining.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer).is_ok();
        if left {
            self.all.fetch_sub(1, Ordering::Release);
        }
        left
    }

    /// Gives the right to call `on_close`: true once (invariant 4).
    pub fn claim_closing(&self) -> bool {
        !self.is_closing.swap(true, Ordering::AcqRel)
    }

    /// Records that `on_close` was called.
    pub fn set_closed(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.waiting.notify_all();
    }

    /// Whether `on_close` was called, or is not going to be.
    pub fn is_over(&self) -> bool {
        let is_closing = self.is_closing.load(Ordering::Acquire);
        self.is_closed.load(Ordering::Acquire) || (!is_closing && self.draining.load(Ordering::Acquire) == 0)
    }

    /// Waits up to `timeout` until `on_close` was called or is not going to be.
    pub fn wait_over(&self, timeout: Duration) -> bool {
        let mut waiter = self.waiting.enter();
        if !self.is_over() {
            waiter.wait(timeout);
        }
        self.is_over()
    }
}
