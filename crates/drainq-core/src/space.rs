//! Producers that wait for room in a full partition, woken in the order in which they came.
//!
//! # Invariants
//! 1. A producer enlists, runs a SeqCst fence, then tries once more. A drain thread frees
//!    places, runs a SeqCst fence, then reads the number of waiters. So either the producer
//!    finds the room or the drain thread finds the producer.
//! 2. A waiter leaves the list when it is called or when it gives up. One that leaves with a
//!    call that it did not use calls the next: a call is never lost. Unused is the call of
//!    one that gives up, and the call that comes for one that found room by itself.
//!
//! Source: the event counts of folly; the pass-on rule is that of Java's AQS on cancellation.

use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, Parker, Unparker, full_fence, planted};
use std::collections::VecDeque;
use std::time::Duration;

struct Waiter {
    called: AtomicBool,
    unparker: Unparker,
}

/// The producers that wait for room in one partition.
pub struct Space {
    count: AtomicUsize,
    line: Mutex<VecDeque<Arc<Waiter>>>,
}

impl Space {
    /// Nobody waits.
    pub fn new() -> Self {
        Self { count: AtomicUsize::new(0), line: Mutex::new(VecDeque::new()) }
    }

    /// Calls up to `freed` waiters, the longest waiting first. To be called after places
    /// were freed.
    #[inline]
    pub fn call(&self, freed: usize) {
        full_fence("space_caller_fence");
        if self.count.load(Ordering::Relaxed) > 0 {
            self.call_waiting(freed);
        }
    }

    #[cold]
    fn call_waiting(&self, freed: usize) {
        let mut line = self.line.lock();
        let called = freed.min(line.len());
        for waiter in line.drain(..called) {
            waiter.called.store(true, Ordering::Relaxed);
            waiter.unparker.unpark();
        }
        self.count.store(line.len(), Ordering::Relaxed);
    }

    /// Calls everybody.
    pub fn call_all(&self) {
        self.call(usize::MAX);
    }

    /// Producers that wait now.
    pub fn waiting(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Gets in line.
    pub fn enlist(&self) -> InLine<'_> {
        let parker = Parker::new();
        let waiter = Arc::new(Waiter { called: AtomicBool::new(false), unparker: parker.unparker().clone() });
        let place = InLine { space: self, parker, waiter, called: false, served: false };
        place.join(|line, waiter| line.push_back(waiter));
        place
    }
}

impl Default for Space {
    fn default() -> Self {
        Self::new()
    }
}

/// A producer's place in the line; dropped, it leaves the line.
pub struct InLine<'a> {
    space: &'a Space,
    parker: Parker,
    waiter: Arc<Waiter>,
    /// Whether the last wait ended with a call, which the next try answers.
    called: bool,
    /// Whether the producer got what it waited for, by that call if there was one.
    served: bool,
}

impl InLine<'_> {
    fn join(&self, enter: impl FnOnce(&mut VecDeque<Arc<Waiter>>, Arc<Waiter>)) {
        let mut line = self.space.line.lock();
        self.waiter.called.store(false, Ordering::Relaxed);
        enter(&mut line, self.waiter.clone());
        self.space.count.store(line.len(), Ordering::Relaxed);
        drop(line);
        full_fence("space_waiter_fence");
    }

    /// Waits for a call, `timeout` at most; the producer then tries again. A waiter that was
    /// called and found the room taken stands in front of the line again: its next try is
    /// the second look of one that lines up, and no answer to a call that comes now.
    pub fn wait(&mut self, timeout: Duration) {
        let called_before = self.waiter.called.load(Ordering::Relaxed);
        if called_before {
            self.join(|line, waiter| line.push_front(waiter));
        } else {
            self.parker.park_timeout(timeout);
        }
        let answers = !called_before || planted("space_second_call");
        self.called = answers && self.waiter.called.load(Ordering::Relaxed);
    }

    /// The producer got its room.
    pub fn served(mut self) {
        self.served = true;
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        let mut line = self.space.line.lock();
        line.retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter));
        self.space.count.store(line.len(), Ordering::Relaxed);
        drop(line);
        let called = self.waiter.called.load(Ordering::Relaxed);
        let used = self.served && (self.called || planted("space_unused_call"));
        if called && !used && !planted("space_pass_on") {
            self.space.call(1);
        }
    }
}
