//! How items get into a partition if the interpreter has a GIL. `push_without_gil.rs` has the same functions.
//!
//! The GIL is the lock that the core's fast path and its `..._serialised` calls ask for.
//!
//! ```text
//!          head              tail         fast_until      head + capacity / 4        head + capacity
//!   --------+-----------------+---------------+--------------------+-----------------------+------> slots
//!    taken  | items           | fast path     | a call that checks: it moves fast_until up to the limit
//! ```
//!
//! A produce call must know that the ring is open, that the next slot is free and allocated, and that the drain thread
//! is awake. A call that has checked this stores in `fast_until` the tail up to which the result holds: at most a
//! quarter of the capacity above the head (the limit), and not beyond the segment. While `tail < fast_until`, the next
//! calls check nothing else: they store the item and the new tail. One producer at a time holds the GIL, so a claim
//! needs no compare-and-swap. A close, or a drain thread that falls asleep, makes the result wrong; both set
//! `fast_until` to 0, with the GIL held.
//!
//! # Invariants
//! 1. Every push of a queue, and its close, happens with the GIL held; waiting happens without it.

use super::SharedQueue;
use super::produce_many::Run;
use crate::batch::routing::CachedRoute;
use crate::batch::types::item::Item;
use crate::gil;
use drainq_core::batch::PartitionId;
use drainq_core::ring::Refusal;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::vec::IntoIter;

impl SharedQueue {
    /// Queues an object by its cached route, if the fast path is open: true if it was queued.
    #[inline(always)]
    pub(super) fn push_fast(&self, object: &Bound<'_, PyAny>, route: CachedRoute<'_>) -> bool {
        let CachedRoute { tag, partition } = route;
        // SAFETY: the GIL is held (invariant 1) and kept; the object fits, and the tag holds the key alone.
        Item::fits(object) && unsafe { partition.push_fast(|| Item::tagged(object, tag)) }
    }

    /// Queues an object by its cached route while the fast path is closed: wakes the drain thread if it sleeps, and
    /// reopens the fast path. True if there was room.
    pub(super) fn push_and_reopen(&self, object: &Bound<'_, PyAny>, route: CachedRoute<'_>) -> bool {
        if !Item::fits(object) {
            return false;
        }
        let (process, CachedRoute { tag, partition }) = (self.process(), route);
        // SAFETY: the object fits, and the tag holds the key alone.
        let item = unsafe { Item::tagged(object, tag) };
        // SAFETY: the GIL is held (invariant 1).
        let queued = unsafe { process.queue.try_produce_at(partition, item) }.is_ok();
        if queued {
            process.gil_yield.yield_if_due(object.py(), &process.queue, partition);
        }
        queued
    }

    /// Queues consecutive items of one partition from index `from` of a list, while the fast path can be kept open;
    /// returns how many.
    pub(super) fn push_run(&self, list: &Bound<'_, PyList>, from: usize) -> usize {
        let process = self.process();
        let Some(mut run) = Run::new(list, from, &self.routing.routes) else { return 0 };
        let partition = run.route.partition;
        loop {
            // SAFETY: the GIL is held (invariant 1) and kept.
            unsafe { partition.push_fast_while(|| run.next_item()) };
            // SAFETY: as above.
            if run.is_over || !unsafe { process.queue.wake_and_open_fast_path(partition) } {
                break;
            }
        }
        process.gil_yield.yield_if_due(list.py(), &process.queue, partition);
        run.index - from
    }

    /// Queues an item, if there is room.
    #[inline(always)]
    pub fn push(&self, _py: Python<'_>, partition: PartitionId, item: Item) -> Result<(), (Item, Refusal)> {
        // SAFETY: the GIL is held (invariant 1).
        unsafe { self.queue().try_produce_serialised(partition, item) }
    }

    /// Queues items of one partition in order, while there is room; returns how many, and the reason if any are left.
    #[inline(always)]
    pub(super) fn push_many(
        &self,
        _py: Python<'_>,
        partition: PartitionId,
        items: &mut IntoIter<Item>,
    ) -> (usize, Option<Refusal>) {
        // SAFETY: the GIL is held (invariant 1).
        unsafe { self.queue().try_produce_many_serialised(partition, items) }
    }

    /// Runs `close_fast_path` on a drain thread that is about to fall asleep, with the GIL, which keeps the producers
    /// out. The thread asks for the GIL as it does for a pass, so that a producer which holds the GIL yields, because
    /// that producer's items wake no thread meanwhile.
    pub(super) fn sync_with_producers(&self, close_fast_path: &dyn Fn()) {
        let process = self.process();
        process.gil_yield.ask();
        gil::held(|_| {
            close_fast_path();
            process.gil_yield.granted_to_sleep(process.queue.is_drained());
        });
    }
}
