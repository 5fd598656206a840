//! `Routing`: the rules for an item's type, its partition and its weight. `RouteCache` maps the address of a name (a
//! class, or a value of the dispatch key) to the key and the partition of the name's items.
//!
//! # Invariants
//! 1. A queue has two caches, and at most one of them is in use: of classes, if the class of an item is its type, or of
//!    the firsts of equal names, if there is a dispatch key. A name is in the cache only if it alone decides key and
//!    partition (no selector, no `len_of`), and only after the drain threads were started. If partitions take turns
//!    (`round_robin`), it decides only the key, and the partition of the route is replaced at each push.
//! 2. A cache's partitions belong to the queue of this process: they never move, and live as long as the
//!    `SharedQueue` that the cache is a field of. A forked child starts with an empty cache. The names are
//!    kept alive by `types/keys.rs`, so an object at the address of a name is that name.

use super::partition_selector::{PartitionSelector, SelectorRule};
use super::types::address_map::AddressMap;
use super::types::item::Item;
use super::types::keys::Keys;
use crate::{errors, gil};
use drainq_core::batch::config::MAX_WEIGHT;
use drainq_core::batch::partition::Partition;
use drainq_core::batch::{BatchQueue, Key, PartitionId};
use pyo3::PyTraverseError;
use pyo3::ffi;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use std::hint::assert_unchecked;
use std::sync::atomic::AtomicUsize;

/// The key and the partition of a name's items.
#[derive(Clone, Copy)]
pub struct CachedRoute<'a> {
    /// The key, in the upper 16 bits, as in a ring item.
    pub tag: u64,
    /// The partition.
    pub partition: &'a Partition<Item>,
}

/// The routes of the names whose items were produced in this process.
pub struct RouteCache(AddressMap);

impl RouteCache {
    /// Makes an empty cache.
    pub fn new() -> Self {
        Self(AddressMap::new())
    }

    /// Returns the route of the items of a class.
    #[inline(always)]
    pub fn of_class(&self, class: *mut ffi::PyTypeObject) -> Option<CachedRoute<'_>> {
        self.find(class.addr())
    }

    /// Returns the route of the name at this address.
    #[inline(always)]
    pub fn find(&self, address: usize) -> Option<CachedRoute<'_>> {
        let found = self.0.find(address)?;
        let partition = found.value.cast::<Partition<Item>>();
        // SAFETY: the value is a partition, which lives as long as the cache (invariant 2). The assertion
        // saves the fast path a test.
        let partition = unsafe {
            assert_unchecked(!partition.is_null());
            &*partition
        };
        Some(CachedRoute { tag: found.tag, partition })
    }

    /// Adds the route of a name that has none.
    ///
    /// # Safety
    ///
    /// The partition lives as long as the cache, and the name too (invariant 2).
    pub unsafe fn add(&self, address: usize, key: Key, partition: &Partition<Item>) {
        let partition: *const Partition<Item> = partition;
        self.0.add(address, key, partition.cast_mut().cast());
    }

    /// Removes all routes: in the child of a fork, whose queue has partitions of its own.
    pub fn clear(&self) {
        self.0.clear();
    }
}

/// The rule that chooses the partition of an item.
enum PartitionChoice {
    /// By its type: one partition for ever.
    ByType,
    /// By another rule of `PartitionSelector`.
    BuiltIn(Py<PartitionSelector>),
    /// By the user's callable.
    Callable(Py<PyAny>),
}

/// The rules for an item's type, its partition and its weight.
pub struct Routing {
    /// Keys and partitions of the classes that were produced in this process.
    pub routes: RouteCache,
    /// Keys and partitions of the values of the dispatch key that were produced in this process.
    pub named_routes: RouteCache,
    /// Types and their numbers.
    pub keys: Keys,
    choice: PartitionChoice,
    /// The callable that returns the weight of an item.
    len_of: Option<Py<PyAny>>,
}

impl Routing {
    /// Reads the selector, and keeps the dispatch key and the callable that returns weights.
    pub fn new(
        py: Python<'_>,
        selector: Py<PyAny>,
        dispatch_key: Option<Py<PyAny>>,
        len_of: Option<Py<PyAny>>,
    ) -> Self {
        let choice = match selector.bind(py).cast::<PartitionSelector>() {
            Ok(built_in) if matches!(built_in.get().0, SelectorRule::TypeHash) => PartitionChoice::ByType,
            Ok(built_in) => PartitionChoice::BuiltIn(built_in.clone().unbind()),
            Err(_) => PartitionChoice::Callable(selector),
        };
        Self {
            routes: RouteCache::new(),
            named_routes: RouteCache::new(),
            keys: Keys::new(py, dispatch_key),
            choice,
            len_of,
        }
    }

    /// Whether the partition of an item depends only on its key and never changes.
    pub fn is_sticky(&self) -> bool {
        matches!(self.choice, PartitionChoice::ByType)
    }

    /// Returns the number of choices so far, if the partitions take turns.
    #[inline(always)]
    pub fn turns(&self) -> Option<&AtomicUsize> {
        match &self.choice {
            PartitionChoice::BuiltIn(selector) => match &selector.get().0 {
                SelectorRule::RoundRobin(choices) => Some(choices),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether the name of an item's type alone decides the item's key, its weight and, unless the partitions take
    /// turns, its partition (invariant 1).
    #[inline]
    pub fn is_by_name(&self) -> bool {
        (self.is_sticky() || self.turns().is_some()) && self.len_of.is_none()
    }

    /// Whether an item's class alone decides its key, its partition and its weight.
    pub fn is_by_class(&self) -> bool {
        self.is_sticky() && self.is_by_name() && self.keys.are_types()
    }

    /// Returns the route of a value of the dispatch key, if it is in the cache; `None` in place of the answer if there
    /// was an exception, which is left set.
    #[inline]
    pub fn plain_route(&self, name: &Bound<'_, PyAny>) -> Option<Option<CachedRoute<'_>>> {
        if !self.is_by_name() {
            return Some(None); // there is no route: this saves the search
        }
        match self.named_routes.find(name.as_ptr().addr()) {
            None => Some(self.keys.address_of_plain(name)?.and_then(|first| self.named_routes.find(first))),
            same => Some(same),
        }
    }

    /// Forgets all routes: in the child of a fork, whose queue has partitions of its own.
    pub fn forget_routes(&self) {
        self.routes.clear();
        self.named_routes.clear();
    }

    /// Makes the ring item of an object, with the object's weight if `len_of` is given.
    pub fn ring_item(&self, object: &Bound<'_, PyAny>, key: Key) -> PyResult<Item> {
        Item::of(object, key, self.weight_of(object)?)
    }

    /// Returns the weight of an object, or `None` for one item if there is no `len_of`.
    pub fn weight_of(&self, object: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        let Some(len_of) = &self.len_of else { return Ok(None) };
        weight(&gil::call(len_of.bind(object.py()), [object])?).map(Some)
    }

    /// Chooses the partition of an item.
    pub fn partition_of(&self, queue: &BatchQueue<Item>, item: &Bound<'_, PyAny>, key: Key) -> PyResult<PartitionId> {
        let count = queue.partition_count();
        match &self.choice {
            PartitionChoice::ByType => Ok(queue.partition_of(key)),
            PartitionChoice::BuiltIn(selector) => {
                Ok(PartitionSelector::__call__(selector.get(), item, count)? as PartitionId)
            }
            PartitionChoice::Callable(selector) => {
                let chosen = gil::call(selector.bind(item.py()), [item, count.into_pyobject(item.py())?.as_any()])?;
                match chosen.extract::<u64>() {
                    Ok(partition) if partition < count as u64 => Ok(partition as PartitionId),
                    _ => Err(errors::bad_value(format!(
                        "the partition selector must return a number from 0 to {}, got {}",
                        count - 1,
                        errors::shown(&chosen)
                    ))),
                }
            }
        }
    }

    /// Shows the garbage collector the user's objects.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.keys.traverse(visit)?;
        match &self.choice {
            PartitionChoice::ByType => {}
            PartitionChoice::BuiltIn(selector) => visit.call(selector)?,
            PartitionChoice::Callable(selector) => visit.call(selector)?,
        }
        visit.call(&self.len_of)
    }
}

/// Reads the number of rows that `len_of` returned for an item.
fn weight(rows: &Bound<'_, PyAny>) -> PyResult<u64> {
    match rows.extract() {
        Ok(weight) if weight <= MAX_WEIGHT && !rows.is_instance_of::<PyBool>() => Ok(weight),
        _ => Err(errors::bad_value(format!(
            "len_of must say for how many rows an item counts, a whole number from 0 to {MAX_WEIGHT}, got {}",
            errors::shown(rows)
        ))),
    }
}
