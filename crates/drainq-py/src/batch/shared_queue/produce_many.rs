//! Many items in one call. Consecutive items of one partition are pushed together if its fast path is open. Otherwise
//! consecutive items of one class claim their slots together.

use super::SharedQueue;
use crate::arguments;
use crate::batch::routing::{CachedRoute, RouteCache};
use crate::batch::types::item::Item;
use crate::deadline::MayWait;
use crate::errors;
use crate::objects::alone_with;
use drainq_core::batch::{Key, PartitionId, Rejection};
use drainq_core::ring::{CLAIM, Refusal};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::ptr;
use std::sync::Arc;

impl SharedQueue {
    /// Queues many items in order; returns how many were accepted.
    pub fn produce_many(self: &Arc<Self>, objects: &Bound<'_, PyAny>, may_wait: MayWait) -> PyResult<u64> {
        match objects.cast_exact::<PyList>() {
            Ok(list) if self.routing.is_by_class() => self.produce_list(list, may_wait),
            _ => arguments::items(objects)?.map(|object| self.produce_one(&object?, may_wait)).sum(),
        }
    }

    fn produce_one(self: &Arc<Self>, object: &Bound<'_, PyAny>, may_wait: MayWait) -> PyResult<u64> {
        let queued =
            self.produce_fast(object) || self.produce_by_cached_route(object) || self.produce(object, may_wait)?;
        Ok(u64::from(queued))
    }

    /// Queues the items of a list. A list is read by index, which costs less than an iterator.
    fn produce_list(self: &Arc<Self>, list: &Bound<'_, PyList>, may_wait: MayWait) -> PyResult<u64> {
        let (mut accepted, mut index) = (0, 0);
        while index < list.len() {
            let fast = self.push_run(list, index);
            index += fast;
            accepted += fast as u64;
            if fast > 0 {
                continue;
            }
            // The next item is of a class without a route, or its partition has no room.
            let Ok(object) = list.get_item(index) else { break }; // another thread has made the list shorter
            let class = self.routing.keys.name_of(&object)?;
            let key = self.key(&class)?;
            self.start_threads(list.py())?;
            self.cache_route(list.py(), key);
            let mut run = Vec::new();
            run.try_reserve(1).map_err(|_| errors::no_memory(list.py()))?;
            run.push(Item::new(&object, key)?);
            index += 1 + alone_with(list, || self.extend_run(list, index + 1, key, &mut run));
            accepted += self.produce_run(list.py(), run, self.queue().partition_of(key), may_wait)?;
        }
        Ok(accepted)
    }

    /// Adds further items of the same class from the list to the run; returns how many. Classes are the types of this
    /// queue. Called [`alone_with`] the list.
    fn extend_run(&self, list: &Bound<'_, PyList>, from: usize, key: Key, run: &mut Vec<Item>) -> usize {
        let end = list.len().min(from + CLAIM);
        for index in from..end {
            let object = item_at(list, index);
            if self.routing.keys.number(object.get_type_ptr().addr()) != Some(key) {
                return index - from;
            }
            if run.try_reserve(1).is_err() {
                return index - from;
            }
            let Ok(item) = Item::new(&object, key) else { return index - from };
            run.push(item);
        }
        end.saturating_sub(from)
    }

    /// Queues items of one key and partition.
    fn produce_run(
        self: &Arc<Self>,
        py: Python<'_>,
        run: Vec<Item>,
        partition: PartitionId,
        may_wait: MayWait,
    ) -> PyResult<u64> {
        let mut items = run.into_iter();
        let bulk = |items: &mut _| self.push_many(py, partition, items);
        let (mut accepted, mut refusal) = bulk(&mut items);
        let process = self.process();
        process.gil_yield.yield_if_due(py, &process.queue, process.queue.partition(partition));
        // If the bulk stopped for lack of room, the rest is queued one by one, waiting or not.
        while let Some(item) = items.next() {
            if refusal == Some(Refusal::NoMemory) {
                return Err(errors::no_memory(py));
            }
            if refusal != Some(Refusal::Full)
                || (matches!(may_wait, MayWait::No) && !self.process().gil_yield.is_wanted())
            {
                drop(item);
                let reason = refusal.map_or(Rejection::Full, Rejection::from);
                self.reject(py, reason, 1 + items.len() as u64);
                return Ok(accepted as u64);
            }
            if self.produce_when_room(py, partition, item, may_wait)? {
                accepted += 1;
            }
            let (more, why) = bulk(&mut items);
            accepted += more;
            refusal = why;
        }
        Ok(accepted as u64)
    }
}

/// Consecutive items of one partition in a list, whose classes have routes.
///
/// Used [`alone_with`] the list.
pub(super) struct Run<'a, 'py> {
    list: &'a Bound<'py, PyList>,
    routes: &'a RouteCache,
    len: usize,
    pub(super) index: usize,
    /// The class of the last item, and its route.
    class: *mut ffi::PyTypeObject,
    pub(super) route: CachedRoute<'a>,
    /// Whether the next item has another partition or no route, or there is no next item.
    pub(super) is_over: bool,
}

impl<'a, 'py> Run<'a, 'py> {
    /// Makes a run of the items from index `from` on, if there is an item and its class has a route.
    pub(super) fn new(list: &'a Bound<'py, PyList>, from: usize, routes: &'a RouteCache) -> Option<Self> {
        let len = list.len();
        let class = (from < len).then(|| item_at(list, from).get_type_ptr())?;
        let route = routes.of_class(class)?;
        Some(Self { list, routes, len, index: from, class, route, is_over: false })
    }

    /// Returns the next item, or `None` if the run is over.
    #[inline(always)]
    pub(super) fn next_item(&mut self) -> Option<Item> {
        let object = (self.index < self.len).then(|| item_at(self.list, self.index));
        match object.filter(|object| Item::fits(object) && self.goes_on_with(object.get_type_ptr())) {
            Some(object) => {
                self.index += 1;
                // SAFETY: the object fits, and the tag holds the key of its class alone.
                Some(unsafe { Item::tagged(&object, self.route.tag) })
            }
            None => {
                self.is_over = true;
                None
            }
        }
    }

    /// Whether items of this class go to the partition of the run. If so, the class is remembered as that of the last
    /// item.
    #[inline(always)]
    fn goes_on_with(&mut self, class: *mut ffi::PyTypeObject) -> bool {
        if ptr::eq(class, self.class) {
            return true;
        }
        let here = |route: &CachedRoute<'_>| ptr::eq(route.partition, self.route.partition);
        let Some(route) = self.routes.of_class(class).filter(here) else { return false };
        (self.class, self.route) = (class, route);
        true
    }
}

/// Returns the object at an index that the list has.
#[inline(always)]
fn item_at<'a, 'py>(list: &'a Bound<'py, PyList>, index: usize) -> Borrowed<'a, 'py, PyAny> {
    // SAFETY: the index is in the list, which no thread changes meanwhile.
    unsafe { Borrowed::from_ptr(list.py(), ffi::PyList_GetItem(list.as_ptr(), index as ffi::Py_ssize_t)) }
}
