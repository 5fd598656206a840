//! Queues one item whose class has a route in the cache, on the fast path or by a call that reopens it.
//!
//! The first item of a class takes the slow path (`slow_path.rs`), which adds the route. Later produce calls read the
//! item's class, find the route, and store the item in the next slot while the fast path of the partition is open
//! (`ring/fast_path.rs` in the core).
//!
//! # Invariants
//! 1. The GIL is held, and is the lock that the core's fast path asks for.

use super::route_cache::CachedRoute;
use crate::batch::shared_queue::SharedQueue;
use crate::batch::types::item::Item;
use pyo3::prelude::*;

impl SharedQueue {
    /// Queues one item if its class has a route and the fast path is open: true if the item was queued.
    #[inline(always)]
    pub fn produce_fast(&self, object: &Bound<'_, PyAny>) -> bool {
        let Some(CachedRoute { tag, partition }) = self.routing.routes.of_class(object.get_type_ptr()) else {
            return false;
        };
        // SAFETY: the GIL is held (invariant 1) and kept; the object fits, and the tag holds the key alone.
        Item::fits(object) && unsafe { partition.push_fast(|| Item::tagged(object, tag)) }
    }

    /// Queues one item whose dispatch key lies at this address: true if the key is the first of its equals and has a
    /// route, and the fast path is open.
    #[inline(always)]
    pub fn produce_fast_by_name(&self, object: &Bound<'_, PyAny>, name: usize) -> bool {
        let Some(CachedRoute { tag, partition }) = self.routing.named_routes.find(name) else { return false };
        // SAFETY: as in `produce_fast`.
        Item::fits(object) && unsafe { partition.push_fast(|| Item::tagged(object, tag)) }
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
        let CachedRoute { tag, partition } = route;
        // SAFETY: the GIL is held (invariant 1) and kept; the object fits, and the tag holds the key alone.
        Item::fits(object)
            && (unsafe { partition.push_fast(|| Item::tagged(object, tag)) } || self.produce_and_reopen(object, route))
    }

    /// Queues one item by the cached route if the fast path is closed: wakes the drain thread if it sleeps, and reopens
    /// the fast path. True if the item was queued; false if its class has no route or there is no room.
    pub fn produce_by_cached_route(&self, object: &Bound<'_, PyAny>) -> bool {
        let route = self.routing.routes.of_class(object.get_type_ptr());
        Item::fits(object) && route.is_some_and(|route| self.produce_and_reopen(object, route))
    }

    /// Queues one item while the fast path is closed, and reopens the fast path: true if there was room.
    fn produce_and_reopen(&self, object: &Bound<'_, PyAny>, CachedRoute { tag, partition }: CachedRoute<'_>) -> bool {
        let process = self.process();
        // SAFETY: the object fits, and the tag holds the key alone.
        let item = unsafe { Item::tagged(object, tag) };
        // SAFETY: the GIL is held (invariant 1).
        let queued = unsafe { process.queue.try_produce_at(partition, item) }.is_ok();
        if queued {
            process.gil_yield.yield_if_due(object.py(), &process.queue, partition);
        }
        queued
    }
}
