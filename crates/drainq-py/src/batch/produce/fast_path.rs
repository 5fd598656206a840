//! The quick way of an item into its partition: from the address of its type straight to the ring.
//!
//! The first item of a type goes the long way (`slow_path.rs`), which then remembers the type's key and
//! partition here. From there on a produce call reads the item's type, finds both, and puts the item
//! into the next place, as long as it is calm in the partition (`ring/serial.rs` in the core).
//!
//! # Invariants
//! 1. The lane holds types only, and only where the type alone decides key and partition
//!    (no dispatch key, no selector, no `len_of`), and only once the drain threads were started.
//! 2. Its pointers are to partitions of this process's queue, which never move and live as long
//!    as the `Shared`; a forked child starts with an empty lane. Its types are kept alive by `types/keys.rs`.
//! 3. The GIL is held: it is the lock that the calm asks for.

use crate::batch::shared::{Select, Shared};
use crate::batch::types::address_map::{AddressMap, Found};
use crate::batch::types::item::Item;
use drainq_core::batch::Key;
use drainq_core::batch::partition::Partition;
use drainq_core::batch::serial::CALM;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::ptr;

/// # Safety
///
/// `found` came from the lane of `shared` (invariant 2).
#[inline(always)]
unsafe fn partition(_shared: &Shared, found: Found) -> &Partition<Item> {
    // SAFETY: the caller's promise.
    unsafe { &*found.value.cast::<Partition<Item>>() }
}

impl Shared {
    /// Whether an item's type alone decides where it goes and what it counts for (invariant 1).
    pub fn goes_by_type(&self) -> bool {
        matches!(self.select, Select::Sticky) && self.len_of.is_none() && self.keys.are_types()
    }

    /// Remembers where the items of a class go, if that is all there is to it; the key is that of
    /// this very class, which `types/keys.rs` keeps alive (invariant 2). An item of it may have changed its
    /// class by now, so the item is not asked again.
    pub fn remember(&self, class: &Bound<'_, PyAny>, key: Key) {
        let process = self.process();
        let class = class.as_ptr().addr();
        if self.goes_by_type() && process.is_started() && self.lane.find(class).is_none() {
            let partition: *const _ = process.queue.partition(process.queue.partition_of(key));
            self.lane.add(class, key, partition.cast_mut().cast());
        }
    }

    /// Queues one item if its type is known and it is calm: true if it was queued.
    #[inline(always)]
    pub fn produce_calm(&self, object: &Bound<'_, PyAny>) -> bool {
        let Some(found) = self.lane.find(object.get_type_ptr().addr()) else { return false };
        // SAFETY: it was found in this lane; the GIL is held (invariant 3) and kept, and the tag holds the key.
        Item::fits(object) && unsafe { partition(self, found).push_calm(|| Item::tagged(object, found.tag)) }
    }

    /// The same where it is not calm: something has to be looked at.
    pub fn produce_attentively(&self, object: &Bound<'_, PyAny>) -> bool {
        let process = self.process();
        let Some(found) = self.lane.find(object.get_type_ptr().addr()) else { return false };
        if !Item::fits(object) {
            return false;
        }
        // SAFETY: it was found in this lane, and the item fits.
        let (at, item) = unsafe { (partition(self, found), Item::tagged(object, found.tag)) };
        // SAFETY: the GIL is held (invariant 3).
        let queued = unsafe { process.queue.try_produce_at(at, item) }.is_ok();
        if queued && process.gil_yield.is_wanted() {
            self.hand_over_if_due(object.py(), at);
        }
        queued
    }

    /// Queues the items of one type from index `from` of a list on, while it is calm; says how many.
    pub fn produce_run_calm(&self, list: &Bound<'_, PyList>, from: usize) -> usize {
        let process = self.process();
        let Some(mut run) = Run::new(list, from, &self.lane) else { return 0 };
        // SAFETY: it was found in this lane.
        let at = unsafe { partition(self, run.found) };
        loop {
            // SAFETY: the GIL is held (invariant 3) and kept.
            unsafe { at.push_calm_while(|| run.next_item()) };
            // SAFETY: as above.
            if run.over || !unsafe { process.queue.look_around(at) } {
                break;
            }
        }
        if process.gil_yield.is_wanted() {
            self.hand_over_if_due(list.py(), at);
        }
        run.index - from
    }

    /// Lets a drain thread have the GIL that wants it, if the partition fills up or the thread has
    /// waited for long.
    pub fn hand_over_if_due(&self, py: Python<'_>, at: &Partition<Item>) {
        let process = self.process();
        let gil_yield = &process.gil_yield;
        if gil_yield.is_wanted()
            && (at.holds_one_in(CALM) || gil_yield.is_overdue())
            && !process.queue.is_draining_here()
        {
            // Whoever has the GIL next, unless it is that thread, is to see the same at once.
            at.end_calm();
            gil_yield.yield_to_drain_thread(py);
        }
    }
}

/// Items of one type that follow each other in a list.
///
/// Nothing in here runs Python code, so the list stays as it is meanwhile.
struct Run<'a, 'py> {
    list: &'a Bound<'py, PyList>,
    len: usize,
    index: usize,
    class: *mut ffi::PyTypeObject,
    found: Found,
    /// The next item is of another type, or there is none.
    over: bool,
}

impl<'a, 'py> Run<'a, 'py> {
    /// The items from index `from` on, if there is one and its type is known.
    fn new(list: &'a Bound<'py, PyList>, from: usize, lane: &AddressMap) -> Option<Self> {
        let len = list.len();
        let class = (from < len).then(|| at(list, from).get_type_ptr())?;
        let found = lane.find(class.addr())?;
        Some(Self { list, len, index: from, class, found, over: false })
    }

    #[inline(always)]
    fn next_item(&mut self) -> Option<Item> {
        let object = (self.index < self.len).then(|| at(self.list, self.index));
        let same = |object: &Borrowed<'_, '_, PyAny>| ptr::eq(object.get_type_ptr(), self.class) && Item::fits(object);
        match object.filter(same) {
            Some(object) => {
                self.index += 1;
                // SAFETY: the object fits, and the tag is that of its type.
                Some(unsafe { Item::tagged(&object, self.found.tag) })
            }
            None => {
                self.over = true;
                None
            }
        }
    }
}

/// The object at an index that the list has.
#[inline(always)]
pub fn at<'a, 'py>(list: &'a Bound<'py, PyList>, index: usize) -> Borrowed<'a, 'py, PyAny> {
    // SAFETY: the GIL is held, the index is in the list, and the list keeps its item.
    unsafe { Borrowed::from_ptr(list.py(), ffi::PyList_GetItem(list.as_ptr(), index as ffi::Py_ssize_t)) }
}
