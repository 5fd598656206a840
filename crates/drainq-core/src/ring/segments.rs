//! The memory of a ring: segments are made with the first item in them and freed with the last.

use super::Ring;
use super::item::RingItem;
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::{order, plain};
use std::ptr::{self, NonNull};

/// Slots in a segment.
#[cfg(not(loom))]
pub const SEGMENT: usize = 256;
/// Slots in a segment; few, so that a model reaches the next segment.
#[cfg(loom)]
pub const SEGMENT: usize = 2;

pub(super) struct Segment {
    pub slots: [AtomicPtr<()>; SEGMENT],
}

impl Segment {
    fn new() -> Box<Self> {
        Box::new(Self { slots: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())) })
    }
}

/// Makes a directory of null pointers. Its memory is asked for zeroed, so the system provides a page of
/// it when the first segment in there is made: a large ring that holds little costs little.
#[cfg(not(any(loom, drainq_shuttle)))]
pub(super) fn directory(entries: usize) -> Box<[AtomicPtr<Segment>]> {
    use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
    assert!(entries > 0, "a directory has an entry");
    let layout = Layout::array::<AtomicPtr<Segment>>(entries).expect("a ring's capacity is bounded");
    // SAFETY: the layout is not empty, because there is an entry.
    let memory = unsafe { alloc_zeroed(layout) }.cast::<AtomicPtr<Segment>>();
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY: the memory is of this layout, from the allocator that boxes use, and has no other owner; zeros
    // are null pointers, and an atomic pointer is in memory what a pointer is.
    unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(memory, entries)) }
}

/// Makes the same of the atomics of a model checker, which are more than their memory.
#[cfg(any(loom, drainq_shuttle))]
pub(super) fn directory(entries: usize) -> Box<[AtomicPtr<Segment>]> {
    (0..entries).map(|_| AtomicPtr::new(ptr::null_mut())).collect()
}

impl<T: RingItem, B> Ring<T, B> {
    #[inline]
    pub(super) fn entry(&self, index: u64) -> &AtomicPtr<Segment> {
        &self.front.directory[(index as usize / SEGMENT) & (self.front.directory.len() - 1)]
    }

    /// Returns the segment of an index that was claimed, or, among serialised producers, is the next.
    #[inline]
    pub(super) fn segment(&self, index: u64) -> NonNull<Segment> {
        match NonNull::new(self.entry(index).load(order("segment_find", Ordering::Acquire))) {
            Some(segment) => segment,
            None => self.install_segment(self.entry(index)),
        }
    }

    /// Puts a segment into an empty entry, unless another producer is quicker.
    #[cold]
    fn install_segment(&self, entry: &AtomicPtr<Segment>) -> NonNull<Segment> {
        let spare = self.back.spare.swap(ptr::null_mut(), order("segment_reuse", Ordering::Acquire));
        let fresh = NonNull::new(spare).unwrap_or_else(|| {
            self.back.made.fetch_add(1, plain::Ordering::Relaxed);
            NonNull::from(Box::leak(Segment::new()))
        });
        let install = order("segment_install", Ordering::AcqRel);
        match entry.compare_exchange(ptr::null_mut(), fresh.as_ptr(), install, Ordering::Acquire) {
            Ok(_) => fresh,
            Err(theirs) => {
                self.recycle(fresh);
                NonNull::new(theirs).expect("the exchange failed, so the entry is not null")
            }
        }
    }

    /// Keeps a segment of null slots for later, freeing the one that was kept before.
    pub(super) fn recycle(&self, segment: NonNull<Segment>) {
        let old = self.back.spare.swap(segment.as_ptr(), order("segment_recycle", Ordering::AcqRel));
        if !old.is_null() {
            // SAFETY: a segment in `spare` came from Box::leak, is in no directory entry, and
            // the swap made this thread its only holder.
            drop(unsafe { Box::from_raw(old) });
            self.back.made.fetch_sub(1, plain::Ordering::Relaxed);
        }
    }

    /// Bytes that the ring holds now, its own structure included, and the whole of its directory.
    pub fn allocated_bytes(&self) -> usize {
        let made = self.back.made.load(plain::Ordering::Relaxed) as usize;
        size_of::<Self>() + self.front.directory.len() * size_of::<usize>() + made * size_of::<Segment>()
    }
}

impl<T: RingItem, B> Drop for Ring<T, B> {
    fn drop(&mut self) {
        let mut left = Vec::new();
        // SAFETY: `&mut self`: no other thread has the ring (invariant 6).
        unsafe { self.take(usize::MAX >> 2, &mut left) };
        // Entries before the head's are empty (invariant 3), and none after the tail's was made.
        let (head, tail) = (self.taken() / SEGMENT as u64, self.accepted() / SEGMENT as u64);
        let entries = (head..=tail).map(|number| self.entry(number * SEGMENT as u64));
        for at in entries.chain([&self.back.spare]) {
            let segment = at.load(Ordering::Relaxed);
            if !segment.is_null() {
                // SAFETY: segments come from Box::leak and are held by one entry each.
                drop(unsafe { Box::from_raw(segment) });
            }
        }
    }
}
