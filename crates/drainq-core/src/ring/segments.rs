//! The memory of a ring: segments that come with the first item and go with the last.

use super::Ring;
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::order;
use crate::word::Word;
use std::ptr::{self, NonNull};

/// Places in a segment.
#[cfg(not(loom))]
pub const SEGMENT: usize = 256;
/// Places in a segment; tiny, so that a model meets their borders.
#[cfg(loom)]
pub const SEGMENT: usize = 2;

pub(super) struct Segment {
    pub places: [AtomicPtr<()>; SEGMENT],
}

impl Segment {
    fn new() -> Box<Self> {
        Box::new(Self { places: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())) })
    }
}

impl<T: Word, B> Ring<T, B> {
    #[inline]
    pub(super) fn entry(&self, index: u64) -> &AtomicPtr<Segment> {
        &self.front.directory[(index as usize / SEGMENT) & (self.front.directory.len() - 1)]
    }

    /// The segment of an index that was claimed, or, among serialised producers, is the next.
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
        let fresh = NonNull::new(spare).unwrap_or_else(|| NonNull::from(Box::leak(Segment::new())));
        let install = order("segment_install", Ordering::AcqRel);
        match entry.compare_exchange(ptr::null_mut(), fresh.as_ptr(), install, Ordering::Acquire) {
            Ok(_) => fresh,
            Err(theirs) => {
                self.recycle(fresh);
                NonNull::new(theirs).expect("the exchange failed, so the entry is not null")
            }
        }
    }

    /// Keeps a segment of null places for later, freeing the one that was kept before.
    pub(super) fn recycle(&self, segment: NonNull<Segment>) {
        let old = self.back.spare.swap(segment.as_ptr(), order("segment_recycle", Ordering::AcqRel));
        if !old.is_null() {
            // SAFETY: a segment in `spare` came from Box::leak, is in no directory entry, and
            // the swap made this thread its only holder.
            drop(unsafe { Box::from_raw(old) });
        }
    }

    /// Bytes that the ring holds now, its own structure included.
    pub fn allocated_bytes(&self) -> usize {
        let made =
            self.front.directory.iter().chain([&self.back.spare]).filter(|at| !at.load(Ordering::Acquire).is_null());
        size_of::<Self>() + self.front.directory.len() * size_of::<usize>() + made.count() * size_of::<Segment>()
    }
}

impl<T: Word, B> Drop for Ring<T, B> {
    fn drop(&mut self) {
        let mut left = Vec::new();
        // SAFETY: `&mut self`: nobody else is here (invariant 6).
        unsafe { self.take(usize::MAX >> 2, &mut left) };
        for at in self.front.directory.iter().chain([&self.back.spare]) {
            let segment = at.load(Ordering::Relaxed);
            if !segment.is_null() {
                // SAFETY: segments come from Box::leak and are held by one entry each.
                drop(unsafe { Box::from_raw(segment) });
            }
        }
    }
}
