//! The memory of a ring: a segment is made for its first item, and kept or freed after its last item.
//!
//! A producer finds the segment of an index in the [`Directory`], and puts a segment there if it finds none. The
//! consumer takes a used-up segment out of the directory and keeps it among the [`Spares`] for the next producers.
//!
//! A full ring is emptied and filled by many segments at a time. If these were freed and allocated again each time, the
//! allocator would return pages to the system and fault them in again. So the ring keeps as many spares as it has
//! segments in use, and at least one.
//!
//! # Invariants
//! 12. The spares are a list, linked by `next`. A segment in the list is in no directory entry. A thread that takes the
//!     list by a swap is the only holder of all its segments. So no thread follows a link that another thread changes,
//!     and a segment may leave the list and come back (there is no ABA problem).

use super::item::RingItem;
#[cfg(any(loom, drainq_shuttle))]
use super::slot::Slot;
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::{order, plain, planted};
use std::ptr::{self, NonNull};

/// Slots in a segment.
#[cfg(not(loom))]
pub const SEGMENT: usize = 256;
/// Slots in a segment; few, so that a model reaches the next segment.
#[cfg(loom)]
pub const SEGMENT: usize = 2;

/// The slots of consecutive indices.
pub(super) struct Segment<T: RingItem> {
    /// The next one of the spares, or null.
    next: AtomicPtr<Self>,
    slots: [T::Slot; SEGMENT],
}

/// Returns how many of the slots from `index` to `end` are in the segment of `index`.
#[inline(always)]
pub(super) fn run(index: u64, end: u64) -> usize {
    (SEGMENT - index as usize % SEGMENT).min((end - index) as usize)
}

impl<T: RingItem> Segment<T> {
    /// Returns the slot of an index, by pointer (invariant 11).
    ///
    /// # Safety
    ///
    /// The segment lives.
    #[inline(always)]
    pub unsafe fn slot(segment: NonNull<Self>, index: u64) -> *const T::Slot {
        // SAFETY: the caller promises that the segment lives; the remainder is less than the number of slots.
        unsafe { (&raw const (*segment.as_ptr()).slots).cast::<T::Slot>().add(index as usize % SEGMENT) }
    }

    /// Returns the last segment of a list of spares.
    ///
    /// # Safety
    ///
    /// This thread holds the list (invariant 12).
    unsafe fn last_of<'a>(list: NonNull<Self>) -> &'a Self {
        // SAFETY: the caller promises that this thread holds the list.
        let mut last = unsafe { list.as_ref() };
        while let Some(next) = NonNull::new(last.next.load(Ordering::Relaxed)) {
            // SAFETY: as above.
            last = unsafe { next.as_ref() };
        }
        last
    }

    /// Makes a segment, if there is memory for it.
    #[cfg(not(any(loom, drainq_shuttle)))]
    fn new() -> Option<Box<Self>> {
        #[cfg(test)]
        if tests::NO_MEMORY.get() {
            return None;
        }
        // SAFETY: the size of a segment is not zero.
        let memory = unsafe { std::alloc::alloc_zeroed(std::alloc::Layout::new::<Self>()) }.cast::<Self>();
        // SAFETY: the memory, if there is any, is of this layout, from the allocator that boxes use, and has no other
        // owner; zeros are empty slots (invariant 9) and a null pointer.
        (!memory.is_null()).then(|| unsafe { Box::from_raw(memory) })
    }

    /// Makes a segment of a model checker's atomics, for which zeroed memory is not enough.
    #[cfg(any(loom, drainq_shuttle))]
    fn new() -> Option<Box<Self>> {
        Some(Box::new(Self { next: AtomicPtr::new(ptr::null_mut()), slots: std::array::from_fn(|_| T::Slot::empty()) }))
    }
}

/// The segments by index: entry `(index / SEGMENT) % entries`, null if the segment was not made.
pub(super) struct Directory<T: RingItem>(Box<[AtomicPtr<Segment<T>>]>);

/// Segments of empty slots, kept for the next producers that need one.
pub(super) struct Spares<T: RingItem> {
    /// The first one of the list (invariant 12), or null.
    first: AtomicPtr<Segment<T>>,
    /// The number of segments of the ring, in use and spare.
    made: plain::AtomicU64,
}

impl<T: RingItem> Directory<T> {
    /// Makes the directory of a ring of `capacity` items, with room for one segment more than the items need.
    pub fn new(capacity: usize) -> Self {
        Self(null_entries((capacity + SEGMENT).div_ceil(SEGMENT).next_power_of_two()))
    }

    /// Returns the entry of an index.
    #[inline]
    pub fn entry(&self, index: u64) -> &AtomicPtr<Segment<T>> {
        &self.0[(index as usize / SEGMENT) & (self.0.len() - 1)]
    }

    /// Returns the segment of a claimed index. Aborts the process if there is no memory for a missing segment.
    #[inline]
    pub fn segment(&self, index: u64, spares: &Spares<T>) -> NonNull<Segment<T>> {
        self.provide(index, spares)
            .unwrap_or_else(|| std::alloc::handle_alloc_error(std::alloc::Layout::new::<Segment<T>>()))
    }

    /// Returns the segment of an index, claimed or next for serialised producers; `None` if there is no memory for it.
    #[inline]
    pub fn provide(&self, index: u64, spares: &Spares<T>) -> Option<NonNull<Segment<T>>> {
        let found = NonNull::new(self.entry(index).load(order("segment_find", Ordering::Acquire)));
        found.or_else(|| install_segment(self.entry(index), spares))
    }

    /// Frees the segments of the indices from `head` to `tail`, at the end of their ring.
    ///
    /// # Safety
    ///
    /// No other thread has the ring, and the directory is not used again.
    pub unsafe fn free(&self, head: u64, tail: u64) {
        for number in head / SEGMENT as u64..=tail / SEGMENT as u64 {
            let segment = self.entry(number * SEGMENT as u64).load(Ordering::Relaxed);
            if !segment.is_null() {
                // SAFETY: segments come from Box::leak and are held by one entry each; the caller promises that
                // nothing else uses them.
                drop(unsafe { Box::from_raw(segment) });
            }
        }
    }

    /// Returns the bytes of the directory.
    pub fn allocated_bytes(&self) -> usize {
        self.0.len() * size_of::<usize>()
    }
}

/// Puts a segment into an empty entry, unless another producer is quicker.
#[cold]
fn install_segment<T: RingItem>(entry: &AtomicPtr<Segment<T>>, spares: &Spares<T>) -> Option<NonNull<Segment<T>>> {
    let fresh = spares.take_or_make()?;
    let install = order("segment_install", Ordering::AcqRel);
    match entry.compare_exchange(ptr::null_mut(), fresh.as_ptr(), install, Ordering::Acquire) {
        Ok(_) => Some(fresh),
        Err(theirs) => {
            spares.keep(fresh);
            NonNull::new(theirs)
        }
    }
}

impl<T: RingItem> Spares<T> {
    /// Makes an empty list of spares.
    pub fn new() -> Self {
        Self { first: AtomicPtr::new(ptr::null_mut()), made: plain::AtomicU64::new(0) }
    }

    /// Returns a segment that is kept, or a new one if there is memory for it.
    fn take_or_make(&self) -> Option<NonNull<Segment<T>>> {
        self.take().or_else(|| {
            let made = NonNull::from(Box::leak(Segment::new()?));
            self.made.fetch_add(1, plain::Ordering::Relaxed);
            Some(made)
        })
    }

    /// Takes a spare segment. Until the rest of the list is put back, other threads find no spare.
    fn take(&self) -> Option<NonNull<Segment<T>>> {
        let reuse = order("segment_reuse", Ordering::Acquire);
        let taken_twice = planted("segment_taken_twice");
        let first = if taken_twice { self.first.load(reuse) } else { self.first.swap(ptr::null_mut(), reuse) };
        let first = NonNull::new(first)?;
        // SAFETY: this thread holds the list (invariant 12).
        let rest = unsafe { first.as_ref() }.next.swap(ptr::null_mut(), Ordering::Relaxed);
        if let Some(rest) = NonNull::new(rest) {
            self.keep(rest);
        }
        Some(first)
    }

    /// Keeps a segment of empty slots for later, or a list of them that this thread holds.
    fn keep(&self, list: NonNull<Segment<T>>) {
        let (mut others, mut last) = (ptr::null_mut(), None);
        let give = order("segment_recycle", Ordering::Release);
        while let Err(now) = self.first.compare_exchange(others, list.as_ptr(), give, Ordering::Relaxed) {
            others = now;
            // SAFETY: this thread holds the list.
            let last = last.get_or_insert_with(|| unsafe { Segment::last_of(list) });
            last.next.store(others, Ordering::Relaxed);
        }
    }

    /// Keeps a used-up segment, and frees spares above the number of segments `in_use`, but keeps at least one.
    pub fn recycle(&self, segment: NonNull<Segment<T>>, in_use: u64) {
        self.keep(segment);
        while self.made.load(plain::Ordering::Relaxed) > in_use + in_use.max(1) {
            let Some(extra) = self.take() else { break };
            // SAFETY: segments come from Box::leak, and this thread is the only holder (invariant 12).
            drop(unsafe { Box::from_raw(extra.as_ptr()) });
            self.made.fetch_sub(1, plain::Ordering::Relaxed);
        }
    }

    /// Returns the bytes of all segments of the ring.
    pub fn allocated_bytes(&self) -> usize {
        self.made.load(plain::Ordering::Relaxed) as usize * size_of::<Segment<T>>()
    }
}

impl<T: RingItem> Drop for Spares<T> {
    fn drop(&mut self) {
        while let Some(kept) = self.take() {
            // SAFETY: as in `recycle`.
            drop(unsafe { Box::from_raw(kept.as_ptr()) });
        }
    }
}

/// Makes entries of null pointers. Their memory is allocated zeroed, so the system provides each page when it is first
/// used: a large ring that holds little costs little.
#[cfg(not(any(loom, drainq_shuttle)))]
fn null_entries<T: RingItem>(entries: usize) -> Box<[AtomicPtr<Segment<T>>]> {
    use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
    assert!(entries > 0, "a directory has an entry");
    let layout = Layout::array::<AtomicPtr<Segment<T>>>(entries).expect("a ring's capacity is bounded");
    // SAFETY: the layout is not empty, because there is an entry.
    let memory = unsafe { alloc_zeroed(layout) }.cast::<AtomicPtr<Segment<T>>>();
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY: the memory is of this layout, from the allocator that boxes use, and has no other owner; zeros
    // are null pointers, and an atomic pointer has the memory layout of a pointer.
    unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(memory, entries)) }
}

/// Makes null entries of a model checker's atomics, for which zeroed memory is not enough.
#[cfg(any(loom, drainq_shuttle))]
fn null_entries<T: RingItem>(entries: usize) -> Box<[AtomicPtr<Segment<T>>]> {
    (0..entries).map(|_| AtomicPtr::new(ptr::null_mut())).collect()
}

#[cfg(all(test, not(any(loom, drainq_shuttle))))]
pub(super) mod tests {
    use std::cell::Cell;

    thread_local! {
        /// Whether there is no memory for segments of this thread.
        pub static NO_MEMORY: Cell<bool> = const { Cell::new(false) };
    }
}
