//! Threads that wait for room, or for another change that no common lock covers, notified in the order in which they
//! came.
//!
//! The state that they wait for, such as the room in a ring, is read and written without a lock. So only fences order
//! a waiter's last check against the change of another thread.
//!
//! # Invariants
//! 1. A waiter enters, runs a SeqCst fence, then tries once more. A thread that makes room runs a SeqCst fence, then
//!    reads the number of waiters. So either the waiter finds the room, or the other thread finds the waiter.
//! 2. A notified waiter is not among the waiters any more. A waiter that leaves without having used its notification
//!    passes it on to the next waiter, so no notification is lost. This happens when a waiter gives up, and when a
//!    notification comes after its waiter found room by itself.
//!
//! # Synchronization
//!
//! | step | ordering | fault that a model notices |
//! | --- | --- | --- |
//! | enter, **fence**, try again | SeqCst | `waiters_enter_fence` |
//! | make room, **fence**, read the number of waiters | SeqCst | `waiters_notify_fence` |
//! | `is_notified` | Relaxed: written under the lock; a waiter that leaves reads it after that lock | `waiters_pass_on` |
//!
//! Source: the event counts of folly; the pass-on rule is that of Java's AQS on cancellation.
//!
//! ```
//! use drainq_core::wait::waiters::Waiters;
//! use std::time::Duration;
//!
//! let waiters = Waiters::new();
//! let mut waiter = waiters.enter();
//! waiters.notify(1);
//! assert!(waiters.is_empty());
//! waiter.wait(Duration::from_secs(60)); // returns at once
//! ```

use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, Parker, Unparker, full_fence, planted};
use std::collections::VecDeque;
use std::time::Duration;

/// The means to notify one waiter, and whether it was notified since it entered.
struct Bell {
    is_notified: AtomicBool,
    unparker: Unparker,
}

/// The threads that wait for one thing.
pub struct Waiters {
    /// The length of `in_order`, for a thread that does not take its lock.
    count: AtomicUsize,
    in_order: Mutex<VecDeque<Arc<Bell>>>,
}

impl Waiters {
    /// Makes an empty list of waiters.
    pub fn new() -> Self {
        Self { count: AtomicUsize::new(0), in_order: Mutex::new(VecDeque::new()) }
    }

    /// Notifies up to `count` waiters, the longest waiting first. Call this after making room for as many.
    #[inline]
    pub fn notify(&self, count: usize) {
        full_fence("waiters_notify_fence");
        if self.count.load(Ordering::Relaxed) > 0 {
            self.notify_first(count);
        }
    }

    #[cold]
    fn notify_first(&self, count: usize) {
        let mut in_order = self.in_order.lock();
        let notified = count.min(in_order.len());
        for bell in in_order.drain(..notified) {
            bell.is_notified.store(true, Ordering::Relaxed);
            bell.unparker.unpark();
        }
        self.count.store(in_order.len(), Ordering::Relaxed);
    }

    /// Notifies all waiters.
    pub fn notify_all(&self) {
        self.notify(usize::MAX);
    }

    /// Returns the number of waiters that have not been notified.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether every waiter has been notified.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds the current thread as the last waiter.
    pub fn enter(&self) -> Waiter<'_> {
        let parker = Parker::new();
        let bell = Arc::new(Bell { is_notified: AtomicBool::new(false), unparker: parker.unparker().clone() });
        let waiter = Waiter { waiters: self, parker, bell, answers_notification: false, is_served: false };
        waiter.enter(VecDeque::push_back);
        waiter
    }
}

impl Default for Waiters {
    fn default() -> Self {
        Self::new()
    }
}

/// One waiting thread. Dropping the value removes the thread from the waiters.
pub struct Waiter<'a> {
    waiters: &'a Waiters,
    parker: Parker,
    bell: Arc<Bell>,
    /// Whether a notification ended the last wait, so that the next try uses it.
    answers_notification: bool,
    /// Whether the wait of the thread succeeded.
    is_served: bool,
}

impl Waiter<'_> {
    fn enter(&self, at: impl FnOnce(&mut VecDeque<Arc<Bell>>, Arc<Bell>)) {
        let mut in_order = self.waiters.in_order.lock();
        self.bell.is_notified.store(false, Ordering::Relaxed);
        at(&mut in_order, self.bell.clone());
        self.waiters.count.store(in_order.len(), Ordering::Relaxed);
        drop(in_order);
        full_fence("waiters_enter_fence");
    }

    /// Waits for a notification, `timeout` at most. The caller then tries again.
    ///
    /// A waiter that was notified and found the room taken does not wait at once. It enters again as the first waiter,
    /// and its caller tries once more after the fence (invariant 1).
    pub fn wait(&mut self, timeout: Duration) {
        let was_notified = self.bell.is_notified.load(Ordering::Relaxed);
        if was_notified {
            self.enter(VecDeque::push_front);
        } else {
            self.parker.park_timeout(timeout);
        }
        let waited = !was_notified || planted("waiters_second_notification");
        self.answers_notification = waited && self.bell.is_notified.load(Ordering::Relaxed);
    }

    /// Leaves the waiters after success, which uses the notification that ended the last wait, if there was one.
    pub fn served(mut self) {
        self.is_served = true;
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut in_order = self.waiters.in_order.lock();
        in_order.retain(|bell| !Arc::ptr_eq(bell, &self.bell));
        self.waiters.count.store(in_order.len(), Ordering::Relaxed);
        drop(in_order);
        let is_notified = self.bell.is_notified.load(Ordering::Relaxed);
        let is_used = self.is_served && (self.answers_notification || planted("waiters_unused_notification"));
        if is_notified && !is_used && !planted("waiters_pass_on") {
            self.waiters.notify(1);
        }
    }
}
