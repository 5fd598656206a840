//! The memory of a ring: segments are made with the first item in them and freed with the last.
//!
//! A producer finds the segment of an index in the [`Directory`], and puts a segment there if it finds none. The
//! consumer takes a used-up segment out of the directory and keeps it as the [`Spare`] for the next producer.

use super::item::RingItem;
#[cfg(any(loom, drainq_shuttle))]
use super::slot::Slot;
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::{order, plain};
use std::ptr::{self, NonNull};

/// Slots in a segment.
#[cfg(not(loom))]
pub const SEGMENT: usize = 256;
/// Slots in a segment; few, so that a model reaches the next segment.
#[cfg(loom)]
pub const SEGMENT: usize = 2;

/// The slots of consecutive indices.
pub(super) struct Segment<T: RingItem> {
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
        // SAFETY: the caller's; the remainder is less than the number of slots.
        unsafe { (&raw const (*segment.as_ptr()).slots).cast::<T::Slot>().add(index as usize % SEGMENT) }
    }

    /// Makes a segment, if there is memory for it.
    #[cfg(not(any(loom, drainq_shuttle)))]
    fn new() -> Option<Box<Self>> {
        #[cfg(test)]
        if tests::NO_MEMORY.get() {
            return None;
        }
        // SAFETY: a segment has a size.
        let memory = unsafe { std::alloc::alloc_zeroed(std::alloc::Layout::new::<Self>()) }.cast::<Self>();
        // SAFETY: the memory, if there is any, is of this layout, from the allocator that boxes use, and has no other
        // owner; zeros are empty slots (invariant 9).
        (!memory.is_null()).then(|| unsafe { Box::from_raw(memory) })
    }

    /// Makes the same of a model checker's atomics, for which zeroed memory is not enough.
    #[cfg(any(loom, drainq_shuttle))]
    fn new() -> Option<Box<Self>> {
        Some(Box::new(Self { slots: std::array::from_fn(|_| T::Slot::empty()) }))
    }
}

/// The segments by index: entry `(index / SEGMENT) % entries`, null if the segment was not made.
pub(super) struct Directory<T: RingItem>(Box<[AtomicPtr<Segment<T>>]>);

/// A segment of empty slots, kept for the next producer that needs one.
pub(super) struct Spare<T: RingItem> {
    /// The segment, or null.
    segment: AtomicPtr<Segment<T>>,
    /// The number of segments of the ring, for statistics of memory.
    made: plain::AtomicU64,
}

impl<T: RingItem> Directory<T> {
    /// Makes a directory for rings of `capacity` items: with room for one more segment than they need.
    pub fn new(capacity: usize) -> Self {
        Self(null_entries((capacity + SEGMENT).div_ceil(SEGMENT).next_power_of_two()))
    }

    /// Returns the entry of an index.
    #[inline]
    pub fn entry(&self, index: u64) -> &AtomicPtr<Segment<T>> {
        &self.0[(index as usize / SEGMENT) & (self.0.len() - 1)]
    }

    /// Returns the segment of an index: a claimed one, or the next one of serialised producers. Aborts the process if
    /// there is no memory.
    #[inline]
    pub fn segment(&self, index: u64, spare: &Spare<T>) -> NonNull<Segment<T>> {
        self.provide(index, spare)
            .unwrap_or_else(|| std::alloc::handle_alloc_error(std::alloc::Layout::new::<Segment<T>>()))
    }

    /// Returns the same, or `None` if there is no memory.
    #[inline]
    pub fn provide(&self, index: u64, spare: &Spare<T>) -> Option<NonNull<Segment<T>>> {
        let found = NonNull::new(self.entry(index).load(order("segment_find", Ordering::Acquire)));
        found.or_else(|| install_segment(self.entry(index), spare))
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
fn install_segment<T: RingItem>(entry: &AtomicPtr<Segment<T>>, spare: &Spare<T>) -> Option<NonNull<Segment<T>>> {
    let fresh = spare.take_or_make()?;
    let install = order("segment_install", Ordering::AcqRel);
    match entry.compare_exchange(ptr::null_mut(), fresh.as_ptr(), install, Ordering::Acquire) {
        Ok(_) => Some(fresh),
        Err(theirs) => {
            spare.recycle(fresh);
            NonNull::new(theirs)
        }
    }
}

impl<T: RingItem> Spare<T> {
    /// Keeps no segment.
    pub fn new() -> Self {
        Self { segment: AtomicPtr::new(ptr::null_mut()), made: plain::AtomicU64::new(0) }
    }

    /// Returns the segment that is kept, or a new one if there is memory for it.
    fn take_or_make(&self) -> Option<NonNull<Segment<T>>> {
        let kept = self.segment.swap(ptr::null_mut(), order("segment_reuse", Ordering::Acquire));
        NonNull::new(kept).or_else(|| {
            let made = NonNull::from(Box::leak(Segment::new()?));
            self.made.fetch_add(1, plain::Ordering::Relaxed);
            Some(made)
        })
    }

    /// Keeps a segment of empty slots for later, and frees the segment that was kept before.
    pub fn recycle(&self, segment: NonNull<Segment<T>>) {
        let old = self.segment.swap(segment.as_ptr(), order("segment_recycle", Ordering::AcqRel));
        if !old.is_null() {
            // SAFETY: a segment that was kept came from Box::leak, is in no directory entry, and
            // the swap made this thread its only holder.
            drop(unsafe { Box::from_raw(old) });
            self.made.fetch_sub(1, plain::Ordering::Relaxed);
        }
    }

    /// Returns the bytes of all segments of the ring.
    pub fn allocated_bytes(&self) -> usize {
        self.made.load(plain::Ordering::Relaxed) as usize * size_of::<Segment<T>>()
    }
}

impl<T: RingItem> Drop for Spare<T> {
    fn drop(&mut self) {
        let kept = self.segment.load(Ordering::Relaxed);
        if !kept.is_null() {
            // SAFETY: as in `recycle`; `&mut self`: no other thread has it.
            drop(unsafe { Box::from_raw(kept) });
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
    // are null pointers, and an atomic pointer is in memory what a pointer is.
    unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(memory, entries)) }
}

/// Makes the same of a model checker's atomics, for which zeroed memory is not enough.
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
