//! The way of one item from a produce call into its partition: on the fast path, by the route in the cache, or on the slow
//! path, which finds the key, the partition and the weight.
//!
//! | step | taken when | where |
//! | --- | --- | --- |
//! | 1. raw method | always: CPython calls it | `queue/raw_method.rs` |
//! | 2. fast path | the class, or the dispatch key's value, has a route in the cache, and `tail < fast_until` | [`SharedQueue::produce_fast`] |
//! | 3. cached route | the class, or the dispatch key's value, has a route; wakes the drain thread, reopens the fast path | [`SharedQueue::produce_by_cached_route`] |
//! | 4. slow path | a new name, a user's selector or weight, a full or closed partition | [`SharedQueue::produce`] |
//!
//! If a partition is full, `wait_for_room.rs` waits, and checks for Ctrl-C meanwhile.
//!
//! `produce_many.rs` takes the same steps for a list; `gil_yield.rs` gives up the GIL for a drain thread before a partition is
//! full. The pushes themselves are in `push_with_gil.rs`, or in `push_without_gil.rs` for a free-threaded interpreter, where
//! step 2 is a claim and step 3 has nothing left to do.

use super::SharedQueue;
use crate::batch::routing::CachedRoute;
use crate::deadline::MayWait;
use crate::errors;
use drainq_core::batch::drop_counts::DropReason;
use drainq_core::batch::{Key, Keyed, PartitionId, Rejection};
use drainq_core::ring::Refusal;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

impl SharedQueue {
    /// Queues one item if its class has a route and the fast path is open: true if the item was queued.
    #[inline(always)]
    pub fn produce_fast(&self, object: &Bound<'_, PyAny>) -> bool {
        let Some(route) = self.routing.routes.of_class(object.get_type_ptr()) else { return false };
        self.push_routed(route, |route| self.push_fast(object, route))
    }

    /// Queues one item whose dispatch key lies at this address: true if the key is the first of its equals and has a
    /// route, and the fast path is open.
    #[inline(always)]
    pub fn produce_fast_by_name(&self, object: &Bound<'_, PyAny>, name: usize) -> bool {
        let Some(route) = self.routing.named_routes.find(name) else { return false };
        self.push_routed(route, |route| self.push_fast(object, route))
    }

    /// Pushes into the route's partition or, if the partitions take turns, into the one whose turn it is.
    #[inline(always)]
    fn push_routed(&self, route: CachedRoute<'_>, push: impl FnOnce(CachedRoute<'_>) -> bool) -> bool {
        match self.routing.turns() {
            None => push(route),
            Some(turns) => self.push_in_turn(turns, route, push),
        }
    }

    /// Pushes into the partition whose turn it is. The turn moves on only if the item is queued, so that a
    /// partition whose fast path is closed is not left out. Two producers that share no GIL may have the same turn.
    #[inline]
    fn push_in_turn(
        &self,
        turns: &AtomicUsize,
        route: CachedRoute<'_>,
        push: impl FnOnce(CachedRoute<'_>) -> bool,
    ) -> bool {
        let (queue, turn) = (self.queue(), turns.load(Ordering::Relaxed));
        let partition = queue.partition((turn % queue.partition_count()) as PartitionId);
        let is_queued = push(CachedRoute { partition, ..route });
        if is_queued {
            turns.store(turn.wrapping_add(1), Ordering::Relaxed);
        }
        is_queued
    }

    /// Queues one item whose dispatch key was `name`, a string or a number or the first of its equals, by the cached
    /// route of that key: true if the item was queued; `None` if there was an exception, which is left set.
    #[inline]
    pub fn produce_by_plain_route(&self, object: &Bound<'_, PyAny>, name: &Bound<'_, PyAny>) -> Option<bool> {
        Some(self.routing.plain_route(name)?.is_some_and(|route| self.produce_to(object, route)))
    }

    /// Queues one item by the cached route of its dispatch key, whose first equal is at this address: true if the item
    /// was queued; false if the key has no route or there is no room.
    pub fn produce_by_named_route(&self, object: &Bound<'_, PyAny>, first: usize) -> bool {
        self.routing.named_routes.find(first).is_some_and(|route| self.produce_to(object, route))
    }

    #[inline]
    fn produce_to(&self, object: &Bound<'_, PyAny>, route: CachedRoute<'_>) -> bool {
        self.push_routed(route, |route| self.push_fast(object, route) || self.push_and_reopen(object, route))
    }

    /// Queues one item by the cached route if the fast path is closed: wakes the drain thread if it sleeps, and reopens
    /// the fast path. True if the item was queued; false if its class has no route or there is no room.
    pub fn produce_by_cached_route(&self, object: &Bound<'_, PyAny>) -> bool {
        let route = self.routing.routes.of_class(object.get_type_ptr());
        route.is_some_and(|route| self.push_routed(route, |route| self.push_and_reopen(object, route)))
    }

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
            // (`routing.rs`, invariant 2).
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
        if !self.process().is_started() {
            self.start_threads(object.py())?;
        }
        match self.push(object.py(), partition, item) {
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

    /// Returns the key of a type, by the type's name; a new name gets a new key.
    pub fn key(&self, name: &Bound<'_, PyAny>) -> PyResult<Key> {
        match self.routing.keys.find(name)? {
            Some(key) => Ok(key),
            None => self.add_key(name),
        }
    }

    /// Adds a type; returns its key. A type that has a key by now keeps it.
    pub fn add_key(&self, name: &Bound<'_, PyAny>) -> PyResult<Key> {
        self.routing.keys.add(name, || self.queue().add_type(0.0))
    }

    /// Counts items that were not accepted, and reports them to `on_drop`, but for [`Rejection::WouldDeadlock`].
    pub fn reject(&self, py: Python<'_>, reason: Rejection, count: u64) {
        self.queue().count_rejected(reason, count);
        match reason {
            Rejection::Full => self.drops.add(py, DropReason::Full, count),
            Rejection::Closed => self.drops.add(py, DropReason::Closed, count),
            Rejection::WouldDeadlock => {}
        }
    }
}
