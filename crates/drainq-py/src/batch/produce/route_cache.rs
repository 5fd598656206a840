//! The route cache: from the address of a name (a class, or a value of the dispatch key) to the key and the partition
//! of its items.
//!
//! # Invariants
//! 1. A queue has two caches, and at most one of them is in use: of classes, if the class of an item is its type, or of
//!    the firsts of equal names, if there is a dispatch key. A name is in the cache only if it alone decides key and
//!    partition (no selector, no `len_of`), and only after the drain threads were started.
//! 2. Its partitions belong to the queue of this process: they never move, and live as long as the
//!    `SharedQueue` that the cache is a field of. A forked child starts with an empty cache. The names are
//!    kept alive by `types/keys.rs`, so an object at the address of a name is that name.

use crate::batch::types::address_map::AddressMap;
use crate::batch::types::item::Item;
use drainq_core::batch::Key;
use drainq_core::batch::partition::Partition;
use pyo3::ffi;
use std::hint::assert_unchecked;

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
