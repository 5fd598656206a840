//! Pushes into a ring whose producers share one lock: without a compare-and-swap, and on the fast path with a single
//! check.
//!
//! Most pushes find the ring as the last push found it: open and mostly empty, at the same segment, with an awake drain
//! thread. A push that has checked this stores in `fast_until` the tail up to which the result holds. The next pushes
//! check only that `tail < fast_until`.
//!
//! ```text
//! head            tail                 fast_until            head + capacity
//!  |--- queued ----|--- no checks -------|--- checks ----------|
//! ```
//!
//! A close, and a drain thread that falls asleep, take the lock and set `fast_until` to 0. A ring that fills up needs
//! no such step: `fast_until` is at most a head that was read plus a share of the capacity, and never beyond the
//! segment.
//!
//! # Invariants
//! 7. `tail` (with its CLOSED bit), `fast_until` and `segment` are written under the producers' lock, in a ring whose
//!    producers have one. In other rings `fast_until` is always 0.
//! 8. While `tail < fast_until`: the ring is open, the slot at `tail` is free, and it lies in `segment`, which is in
//!    the directory.
//!
//! Source: the limit of JCTools' and FastFlow's producers, which saves them a read of the consumer's index; here it
//! saves every check.

use super::item::RingItem;
use super::segments::{SEGMENT, Segment};
use super::slot::Slot;
use super::{CLOSED, ONE, Refusal, Ring};
use crate::sync::atomic::Ordering;
use crate::sync::{order, planted};
use std::ptr::NonNull;

impl<T: RingItem, B> Ring<T, B> {
    /// Pushes as [`Ring::push`] does, but without a compare-and-swap and so at half the cost.
    ///
    /// # Safety
    ///
    /// All calls that change the tail (every push and [`Ring::close`]) run under one lock.
    #[inline]
    pub unsafe fn push_serialised(&self, item: T) -> Result<(), (T, Refusal)> {
        match self.claim::<true>(1) {
            Ok((index, _)) => {
                self.publish(index, item);
                Ok(())
            }
            Err(refusal) => Err((item, refusal)),
        }
    }

    /// Pushes as [`Ring::push_many`] does, without a compare-and-swap.
    ///
    /// # Safety
    ///
    /// That of [`Ring::push_serialised`].
    pub unsafe fn push_many_serialised(
        &self,
        items: &mut std::vec::IntoIter<T>,
        most: usize,
    ) -> (usize, Option<Refusal>) {
        self.publish_many::<true>(items, most)
    }

    /// Pushes the result of `make` if the fast path is open. Else returns false without calling `make`. `make` must not
    /// panic.
    ///
    /// # Safety
    ///
    /// That of [`Ring::push_serialised`]; `make` does not release the lock.
    #[inline(always)]
    pub unsafe fn push_fast(&self, make: impl FnOnce() -> T) -> bool {
        let tail = self.front.tail.load(Ordering::Relaxed);
        if tail >= self.front.fast_until.load(Ordering::Relaxed) {
            return false;
        }
        let item = make();
        // SAFETY: the fast path is open, so `segment` holds the next slot (invariant 8) and lives at least until that
        // slot was taken (invariant 4).
        unsafe { T::Slot::publish(Segment::slot(self.fast_segment(), tail / ONE), item) };
        self.front.tail.store(tail + ONE, Ordering::Relaxed);
        true
    }

    /// Pushes the results of `next` until `next` returns `None` or the fast path ends. Returns how many it pushed.
    /// `next` must not panic.
    ///
    /// # Safety
    ///
    /// That of [`Ring::push_fast`].
    #[inline(always)]
    pub unsafe fn push_fast_while(&self, mut next: impl FnMut() -> Option<T>) -> usize {
        let tail = self.front.tail.load(Ordering::Relaxed);
        let fast_until = self.front.fast_until.load(Ordering::Relaxed);
        if tail >= fast_until {
            return 0;
        }
        // SAFETY: as in `push_fast`; the fast path ends within the segment.
        let segment = unsafe { self.fast_segment() };
        let (first, end) = (tail / ONE, fast_until / ONE);
        let mut index = first;
        while index < end {
            let Some(item) = next() else { break };
            // SAFETY: as above.
            unsafe { T::Slot::publish(Segment::slot(segment, index), item) };
            index += 1;
        }
        // The tail is stored last, so that neither the consumer nor a snapshot meets a claim without its item.
        self.front.tail.store(index * ONE, Ordering::Relaxed);
        (index - first) as usize
    }

    /// Returns the segment of the fast path.
    ///
    /// # Safety
    ///
    /// The fast path is open.
    #[inline(always)]
    unsafe fn fast_segment(&self) -> NonNull<Segment<T>> {
        // SAFETY: the caller promises that the fast path is open, so there is a segment (invariant 8).
        unsafe { NonNull::new_unchecked(self.front.segment.load(Ordering::Relaxed)) }
    }

    /// Opens the fast path for `most` items, until `1 / share` of the capacity is used, or to the end of the segment,
    /// whichever comes first. Returns for how many items the fast path is open, 0 if it cannot be opened.
    ///
    /// # Safety
    ///
    /// That of [`Ring::push_serialised`].
    #[inline]
    pub unsafe fn open_fast_path(&self, share: u64, most: u64) -> u64 {
        let tail = self.front.tail.load(Ordering::Relaxed);
        if tail & CLOSED != 0 {
            return 0;
        }
        let index = tail / ONE;
        let room = if planted("fast_room") { 2 * self.front.capacity } else { self.front.capacity / share };
        let end = self.back.head.load(order("fast_head", Ordering::Acquire)) + room;
        let end = end.min((index / SEGMENT as u64 + 1) * SEGMENT as u64).min(index.saturating_add(most));
        if end <= index {
            return 0;
        }
        let Some(segment) = self.front.directory.provide(index, &self.back.spares) else { return 0 };
        self.front.segment.store(segment.as_ptr(), Ordering::Relaxed);
        self.front.fast_until.store(end * ONE, Ordering::Relaxed);
        end - index
    }

    /// Closes the fast path, so that the next push checks everything. Call this under the producers' lock. Returns for
    /// how many items the fast path was still open.
    #[inline]
    pub fn close_fast_path(&self) -> u64 {
        if planted("fast_close") {
            return 0;
        }
        let fast_until = self.front.fast_until.load(Ordering::Relaxed);
        self.front.fast_until.store(0, Ordering::Relaxed);
        fast_until.saturating_sub(self.front.tail.load(Ordering::Relaxed)) / ONE
    }
}
