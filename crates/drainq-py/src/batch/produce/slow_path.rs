//! The slow path: finds an item's key, partition and weight, then pushes the item or returns the reason why not. If
//! there is no room, `wait_for_room.rs` takes over.
//!
//! # Invariants
//! 1. Every push of a queue, and its close, happens with the GIL held; waiting happens
//!    without it. So the GIL is the lock that `try_produce_serialised` asks for.

use crate::batch::shared_queue::SharedQueue;
use crate::deadline::MayWait;
use crate::errors;
use drainq_core::batch::drop_counts::DropReason;
use drainq_core::batch::{Key, Keyed, Rejection};
use drainq_core::ring::Refusal;
use pyo3::prelude::*;
use std::sync::Arc;

impl SharedQueue {
    /// Whether `produce` waits if the partition is full, by the queue's strategy.
    pub fn may_wait(&self) -> MayWait {
        if self.blocks() { MayWait::for_ever() } else { MayWait::No }
    }

    /// Adds the name of this key to the route cache, if the name alone decides the partition. The name is not read from
    /// an item, whose class may have changed by now. The threads run, because no Python code, which may fork, has run
    /// since their start.
    pub(super) fn cache_route(&self, py: Python<'_>, key: Key) {
        let process = self.process();
        if !self.routing.is_by_name() {
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
        let item = self.routing.ring_item(object, key)?;
        let weight = item.weight();
        self.start_threads(object.py())?;
        // SAFETY: the GIL is held (invariant 1).
        match unsafe { self.queue().try_produce_serialised(partition, item) } {
            Ok(()) => {
                self.cache_route(object.py(), key);
                let process = self.process();
                process.gil_yield.yield_if_due(object.py(), &process.queue, process.queue.partition(partition));
                Ok(true)
            }
            Err((item, Refusal::Full)) => self.produce_when_room(object.py(), partition, item, may_wait),
            Err((_, Refusal::Closed)) => {
                self.reject(object.py(), Rejection::Closed, weight);
                Ok(false)
            }
            Err((_, Refusal::NoMemory)) => Err(errors::no_memory(object.py())),
        }
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
