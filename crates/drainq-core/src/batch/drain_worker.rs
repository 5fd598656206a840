//! The queue's record of one drain thread.
//!
//! # Invariants
//! 1. A drain thread takes items from rings, and counts outcomes, under the `counts` lock of its worker. A thread that
//!    holds the locks of all workers sees every accepted item in exactly one place: in a ring, in flight, or counted.
//! 2. Once `cut` is set under the lock, the worker takes and counts nothing more.

use super::item::ThreadId;
use super::outcome_counters::OutcomeCounts;
use crate::sync::{CachePadded, Mutex, Parker};
use crate::wait::sleeper::Sleeper;
use std::cell::Cell;

/// The counters of one drain thread, in items unless a field names another unit.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkerCounts {
    /// Items taken whose handler call has not returned.
    pub in_flight: u64,
    /// Whether a pass that took items is not over. `in_flight` cannot tell, because the items may have no weight.
    pub in_pass: bool,
    /// The outcomes of the items that were handed out.
    pub outcomes: OutcomeCounts,
    /// Passes that found an item.
    pub cycles: u64,
    /// Time between taking and the end of the pass.
    pub busy_nanos: u64,
    /// Whether a cut has counted the items in flight as abandoned (invariant 2).
    pub cut: bool,
}

/// One drain thread, as the queue sees it.
pub(super) struct Worker {
    /// The thread's sleep and its wake-ups.
    pub sleeper: CachePadded<Sleeper>,
    pub(super) counts: Mutex<WorkerCounts>,
    /// The right to drain as this worker; none while a drainer has it.
    right: Mutex<Option<DrainRight>>,
}

/// The right to drain as one worker, with the parker of its thread. A worker of a pool has no parker.
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

    /// Takes the right to drain as this worker; `None` if a drainer has it.
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

/// Marks the current thread as one that drains the queue with this id.
pub(super) fn enter(queue: u64, worker: ThreadId) {
    DRAINING.set((queue, worker));
}

/// Runs `work` with the current thread marked as a drain thread of this queue.
pub(super) fn while_draining<R>(queue: u64, work: impl FnOnce() -> R) -> R {
    let before = DRAINING.replace((queue, 0));
    let done = work();
    DRAINING.set(before);
    done
}

/// Marks the current thread as one that drains no queue.
pub(super) fn leave() {
    DRAINING.set((0, 0));
}

/// Returns the thread number of the current thread, if it drains the queue with this id.
pub(super) fn draining(queue: u64) -> Option<ThreadId> {
    let (current, worker) = DRAINING.get();
    (current == queue).then_some(worker)
}
