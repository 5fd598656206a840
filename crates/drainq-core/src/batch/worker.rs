//! What a queue knows of one of its drain threads.
//!
//! # Invariants
//! 1. Items are taken from rings, and outcomes counted, under the `counts` lock of the
//!    thread that does it. Whoever holds the locks of all workers sees every accepted item
//!    in exactly one place: in a ring, in flight, or counted.
//! 2. Once `cut` is set under the lock, the thread takes and counts nothing more.

use super::item::ThreadId;
use crate::sync::{CachePadded, Mutex, Parker};
use crate::wait::sleeper::Sleeper;
use std::cell::Cell;

/// What a drain thread did, in items unless said otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkerCounts {
    /// Taken, and their handler call has not returned.
    pub in_flight: u64,
    /// Through a handler call that returned.
    pub handled: u64,
    /// Through a handler call that raised.
    pub failed: u64,
    /// Of the failed ones, those that a durable queue took.
    pub dead_lettered: u64,
    /// Without a handler.
    pub unrouted: u64,
    /// Passes that found something.
    pub cycles: u64,
    /// Time between taking and the end of the pass.
    pub busy_nanos: u64,
    /// The queue gave up waiting for this thread (invariant 2).
    pub cut: bool,
}

/// One drain thread, seen from the queue.
pub(super) struct Worker {
    /// Its sleep.
    pub sleeper: CachePadded<Sleeper>,
    pub(super) counts: Mutex<WorkerCounts>,
    /// What the one drainer of this worker holds; nothing while there is one.
    right: Mutex<Option<DrainRight>>,
}

/// The right to drain as this worker, and the end on which its thread parks, if it is one of its own.
pub(super) struct DrainRight(Option<Parker>);

impl DrainRight {
    pub fn parker(&self) -> Option<&Parker> {
        self.0.as_ref()
    }
}

impl Worker {
    pub(super) fn new() -> Self {
        let (sleeper, parker) = Sleeper::of_thread();
        Self {
            sleeper: CachePadded::new(sleeper),
            counts: Mutex::new(WorkerCounts::default()),
            right: Mutex::new(Some(DrainRight(Some(parker)))),
        }
    }

    pub(super) fn of_pool(sleeper: Sleeper) -> Self {
        Self {
            sleeper: CachePadded::new(sleeper),
            counts: Mutex::new(WorkerCounts::default()),
            right: Mutex::new(Some(DrainRight(None))),
        }
    }

    /// The right to drain as this worker, unless a drainer has it.
    pub(super) fn take_right(&self) -> Option<DrainRight> {
        self.right.lock().take()
    }

    pub(super) fn give_right_back(&self, right: DrainRight) {
        *self.right.lock() = Some(right);
    }
}

thread_local! {
    static DRAINING: Cell<(u64, ThreadId)> = const { Cell::new((0, 0)) };
}

/// Says that the current thread drains the queue with this id.
pub(super) fn enter(queue: u64, worker: ThreadId) {
    DRAINING.set((queue, worker));
}

/// Runs `work` on a thread that counts as one of this queue's drain threads meanwhile.
pub(super) fn while_draining<R>(queue: u64, work: impl FnOnce() -> R) -> R {
    let before = DRAINING.replace((queue, 0));
    let done = work();
    DRAINING.set(before);
    done
}

/// Says that the current thread drains nothing now.
pub(super) fn leave() {
    DRAINING.set((0, 0));
}

/// The thread number of the current thread, if it drains the queue with this id.
pub(super) fn draining(queue: u64) -> Option<ThreadId> {
    let (current, worker) = DRAINING.get();
    (current == queue).then_some(worker)
}
