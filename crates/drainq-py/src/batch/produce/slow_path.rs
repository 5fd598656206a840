//! The slow path: an item's key, its partition, its weight; then a slot, a wait for room, or the reason why not.
//!
//! # Invariants
//! 1. Every push of a queue, and its close, happens with the GIL held; waiting happens
//!    without it. So the GIL is the lock that `try_produce_serialised` asks for.

use crate::batch::coroutines;
use crate::batch::drop_reports::DropReason;
use crate::batch::shared::SharedQueue;
use crate::batch::types::item::Item;
use crate::ctrl_c;
use crate::deadline::MayWait;
use crate::fork::Generation;
use crate::{errors, gil};
use drainq_core::batch::{Key, Keyed, PartitionId, Rejection};
use drainq_core::ring::Refusal;
use pyo3::prelude::*;
use std::mem;
use std::sync::Arc;

impl SharedQueue {
    /// Whether `produce` waits if the partition is full, by the queue's strategy.
    pub fn may_wait(&self) -> MayWait {
        if self.blocks() { MayWait::for_ever() } else { MayWait::No }
    }

    /// Adds the name of this key to the route cache, if the name alone decides where its items go. The name is not
    /// read from an item, because the item may have another class by now.
    pub(super) fn cache_route(&self, py: Python<'_>, key: Key) {
        let process = self.process();
        if !self.routing.is_by_name() || !process.is_started() {
            return;
        }
        let cache = if self.routing.keys.are_types() { &self.routing.routes } else { &self.routing.named_routes };
        let name = self.routing.keys.name(py, key).as_ptr().addr();
        if cache.find(name).is_none() {
            let partition = process.queue.partition(process.queue.partition_of(key));
            // SAFETY: the partition belongs to the queue of this process, and the name to `types/keys.rs`
            // (`route_cache.rs`, invariant 2).
            unsafe { cache.add(name, key, partition) };
        }
    }

    /// Queues one item: true if it was accepted.
    pub fn produce(self: &Arc<Self>, object: &Bound<'_, PyAny>, may_wait: MayWait) -> PyResult<bool> {
        let name = self.routing.keys.name_of(object)?;
        self.produce_named(object, &name, may_wait)
    }

    /// Queues one item of a type that has this name: true if it was accepted.
    pub fn produce_named(
        self: &Arc<Self>,
        object: &Bound<'_, PyAny>,
        name: &Bound<'_, PyAny>,
        may_wait: MayWait,
    ) -> PyResult<bool> {
        let first = self.routing.keys.address(name)?;
        if first.is_some_and(|first| self.produce_by_named_route(object, first)) {
            return Ok(true);
        }
        let key = match first.and_then(|first| self.routing.keys.number(first)) {
            Some(key) => key,
            None => self.add_key(name)?,
        };
        let partition = self.routing.partition_of(self.queue(), object, key)?;
        if !self.process().is_started() {
            self.start_threads(object.py())?;
        }
        let item = self.routing.ring_item(object, key)?;
        let weight = item.weight();
        // SAFETY: the GIL is held (invariant 1).
        match unsafe { self.queue().try_produce_serialised(partition, item) } {
            Ok(()) => {
                self.cache_route(object.py(), key);
                self.yield_gil_if_due(object.py(), self.queue().partition(partition));
                Ok(true)
            }
            Err((item, Refusal::Full)) => self.produce_when_room(object.py(), partition, item, may_wait),
            Err((_, Refusal::Closed)) => {
                self.reject(object.py(), Rejection::Closed, weight);
                Ok(false)
            }
        }
    }

    /// Queues an item whose partition was full: waits for room as `may_wait` says. True if the item was queued.
    #[cold]
    pub(super) fn produce_when_room(
        &self,
        py: Python<'_>,
        partition: PartitionId,
        mut item: Item,
        may_wait: MayWait,
    ) -> PyResult<bool> {
        let deadline = match may_wait {
            MayWait::Until(deadline) if !deadline.passed() => deadline,
            _ => return Ok(self.produce_after_gil_yield(py, partition, item)),
        };
        let weight = item.weight();
        self.check_not_draining_here(py, weight)?;
        let (queue, begun_in) = (self.queue().clone(), Generation::now());
        let mut waiter = queue.wait_for_room(partition);
        loop {
            // SAFETY: the GIL is held (invariant 1).
            match unsafe { queue.try_produce_serialised(partition, item) } {
                Ok(()) => {
                    waiter.served();
                    return Ok(true);
                }
                Err((back, Refusal::Closed)) => {
                    drop(waiter);
                    drop(back);
                    self.reject(py, Rejection::Closed, weight);
                    return Ok(false);
                }
                Err((back, Refusal::Full)) => item = back,
            }
            let interrupted = py.check_signals();
            if begun_in.is_past() {
                // The waiter is the parent's; its lock may be taken.
                mem::forget(waiter);
                return Err(ctrl_c::forked(py));
            }
            if interrupted.is_err() || deadline.passed() {
                drop(waiter);
                drop(item);
                self.reject(py, Rejection::Full, weight);
                return interrupted.map(|()| false);
            }
            let slice = ctrl_c::slice(deadline);
            gil::released(py, || waiter.wait(slice));
        }
    }

    /// Rejects an item for which there is no room and no time to wait. If a drain thread waits for the GIL,
    /// the producer first yields the GIL to it and tries once more: the drain thread may make room.
    fn produce_after_gil_yield(&self, py: Python<'_>, partition: PartitionId, mut item: Item) -> bool {
        let (mut reason, weight) = (Rejection::Full, item.weight());
        if self.process().gil_yield.is_wanted() && !self.queue().is_draining_here() {
            self.process().gil_yield.yield_to_drain_thread(py);
            // SAFETY: the GIL is held (invariant 1).
            match unsafe { self.queue().try_produce_serialised(partition, item) } {
                Ok(()) => return true,
                Err((back, refusal)) => (item, reason) = (back, refusal.into()),
            }
        }
        drop(item);
        self.reject(py, reason, weight);
        false
    }

    fn check_not_draining_here(&self, py: Python<'_>, weight: u64) -> PyResult<()> {
        let event_loop = self.callables.event_loop.as_ref();
        let is_loop_here = event_loop.map(|event_loop| coroutines::is_here(event_loop.bind(py))).transpose()?;
        if is_loop_here == Some(true) {
            self.queue().count_rejected(Rejection::WouldDeadlock, weight);
            return Err(errors::WOULD_DEADLOCK.error(
                py,
                format!(
                    "a producer of queue {:?} waits for room in the event loop that runs its handlers, which alone can \
                     make room; await produce_async(item)",
                    self.name()
                ),
            ));
        }
        if !self.queue().is_draining_here() {
            return Ok(());
        }
        self.queue().count_rejected(Rejection::WouldDeadlock, weight);
        Err(errors::WOULD_DEADLOCK.error(
            py,
            format!(
                "a handler of queue {:?} waits for room in a full partition of the same queue, which only its own \
                 return can make; use offer(item, timeout=0), IF_POSSIBLE, or a larger buffer_size",
                self.name()
            ),
        ))
    }

    /// Counts items that were not accepted, and reports them to `on_drop`.
    pub(super) fn reject(&self, py: Python<'_>, reason: Rejection, count: u64) {
        self.queue().count_rejected(reason, count);
        match reason {
            Rejection::Full => self.drops.add(py, DropReason::Full, count),
            Rejection::Closed => self.drops.add(py, DropReason::Closed, count),
            Rejection::WouldDeadlock => {}
        }
    }
}
