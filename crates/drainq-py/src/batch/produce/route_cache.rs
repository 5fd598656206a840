//! The route cache: from the address of a class to the key and the partition of its items.
//!
//! # Invariants
//! 1. The cache holds classes only, and only where the class alone decides key and partition
//!    (no dispatch key, no selector, no `len_of`), and only once the drain threads were started.
//! 2. Its partitions belong to the queue of this process: they never move, and live as long as the
//!    `SharedQueue` that the cache is a field of. A forked child starts with an empty cache. The classes are
//!    kept alive by `types/keys.rs`.

use crate::batch::types::address_map::AddressMap;
use crate::batch::types::item::Item;
use drainq_core::batch::Key;
use drainq_core::batch::partition::Partition;
use pyo3::ffi;
use pyo3::prelude::*;
use std::hint::assert_unchecked;

/// Where the items of a class go.
#[derive(Clone, Copy)]
pub struct CachedRoute<'a> {
    /// The key, in the upper 16 bits, where a ring item has it.
    pub tag: u64,
    /// The partition.
    pub partition: &'a Partition<Item>,
}

/// The routes of the classes that were produced in this process.
pub struct RouteCache(AddressMap);

impl RouteCache {
    /// Makes an empty cache.
    pub fn new() -> Self {
        Self(AddressMap::new())
    }

    /// Returns the route of the items of a class.
    #[inline(always)]
    pub fn find(&self, class: *mut ffi::PyTypeObject) -> Option<CachedRoute<'_>> {
        let found = self.0.find(class.addr())?;
        let partition = found.value.cast::<Partition<Item>>();
        // SAFETY: the value is a partition, which lives as long as the cache (invariant 2). The assertion
        // saves the fast path a test.
        let partition = unsafe {
            assert_unchecked(!partition.is_null());
            &*partition
        };
        Some(CachedRoute { tag: found.tag, partition })
    }

    /// Adds the route of a class that has none.
    ///
    /// # Safety
    ///
    /// The partition lives as long as the cache, and the class too (invariant 2).
    pub unsafe fn add(&self, class: &Bound<'_, PyAny>, key: Key, partition: &Partition<Item>) {
        let partition: *const Partition<Item> = partition;
        self.0.add(class.as_ptr().addr(), key, partition.cast_mut().cast());
    }

    /// Removes all routes: in the child of a fork, whose queue has partitions of its own.
    pub fn clear(&self) {
        self.0.clear();
    }
}
