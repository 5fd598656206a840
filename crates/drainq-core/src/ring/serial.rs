//! Pushing where one lock keeps the producers apart: no compare-and-swap, and in calm no
//! look at anything but the next place.
//!
//! Most pushes find what the last one found: the ring open and mostly empty, the segment the
//! same, the drain thread awake. So a push that has looked says up to which index nobody
//! needs to look again: the places before `calm`. Whatever ends the calm (a close, a drain
//! thread that falls asleep) takes the lock and sets `calm` to 0. What fills the ring ends it by
//! itself, for `calm` lies no further than a share of the capacity above a head that was read.
//!
//! # Invariants
//! 7. `tail` (bits and all), `calm` and `segment` are written under the producers' lock, in a ring
//!    whose producers have one. In other rings `calm` is 0 for ever.
//! 8. While `tail < calm`: the ring is open, the place `tail` is free, and it lies in `segment`,
//!    which is in the directory.
//!
//! Source: the limit of JCTools' and FastFlow's producers, which saves them a look at the
//! consumer's index; here it saves all looks.

use super::segments::{SEGMENT, Segment};
use super::{CLOSED, ONE, Refusal, Ring};
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::{order, planted};
use crate::word::Word;

impl<T: Word, B> Ring<T, B> {
    /// As [`Ring::push`], without a compare-and-swap: half the price.
    ///
    /// # Safety
    ///
    /// One lock, held around each call, keeps all calls that change the tail (every push and
    /// [`Ring::close`]) apart.
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

    /// As [`Ring::push_many`], without a compare-and-swap.
    ///
    /// # Safety
    ///
    /// That of [`Ring::push_serialised`].
    pub unsafe fn push_many_serialised(&self, items: &mut std::vec::IntoIter<T>) -> (usize, Option<Refusal>) {
        self.publish_many::<true>(items)
    }

    /// Queues what `make` returns if the calm lasts; else `make` is not called, and this is
    /// false. `make` must not panic.
    ///
    /// # Safety
    ///
    /// That of [`Ring::push_serialised`]; `make` does not give the lock up.
    #[inline(always)]
    pub unsafe fn push_calm(&self, make: impl FnOnce() -> T) -> bool {
        let tail = self.front.tail.load(Ordering::Relaxed);
        if tail >= self.front.calm.load(Ordering::Relaxed) {
            return false;
        }
        // SAFETY: it is calm, so the segment is the one of the next place (invariant 8) and
        // lives at least until that place was taken (invariant 4).
        self.put(unsafe { self.calm_places() }, tail / ONE, make());
        self.front.tail.store(tail + ONE, Ordering::Relaxed);
        true
    }

    /// Queues what `next` returns, until it returns nothing or the calm is over; says how many.
    /// `next` must not panic.
    ///
    /// # Safety
    ///
    /// That of [`Ring::push_calm`].
    #[inline(always)]
    pub unsafe fn push_calm_while(&self, mut next: impl FnMut() -> Option<T>) -> usize {
        let tail = self.front.tail.load(Ordering::Relaxed);
        let calm = self.front.calm.load(Ordering::Relaxed);
        if tail >= calm {
            return 0;
        }
        // SAFETY: as in `push_calm`; the calm ends within the segment.
        let places = unsafe { self.calm_places() };
        let (first, end) = (tail / ONE, calm / ONE);
        let mut index = first;
        while index < end {
            let Some(item) = next() else { break };
            self.put(places, index, item);
            index += 1;
        }
        // Only now: the consumer and whoever counts meet no claim without its item.
        self.front.tail.store(index * ONE, Ordering::Relaxed);
        (index - first) as usize
    }

    /// # Safety
    ///
    /// It is calm.
    #[inline(always)]
    unsafe fn calm_places(&self) -> &[AtomicPtr<()>; SEGMENT] {
        let segment: *const Segment = self.front.segment.load(Ordering::Relaxed);
        // SAFETY: the caller says that it is calm: invariants 8 and 4.
        unsafe { &(*segment).places }
    }

    #[inline(always)]
    fn put(&self, places: &[AtomicPtr<()>; SEGMENT], index: u64, item: T) {
        let word = item.into_word().as_ptr();
        places[index as usize % SEGMENT].store(word, order("calm_publish", Ordering::Release));
    }

    /// Says that from here on nothing but a fuller ring needs to be looked at: calm lasts until
    /// one in `share` places is taken, or to the end of the segment. Says whether it is calm.
    ///
    /// # Safety
    ///
    /// That of [`Ring::push_serialised`].
    #[inline]
    pub unsafe fn calm_down(&self, share: u64) -> bool {
        let tail = self.front.tail.load(Ordering::Relaxed);
        if tail & CLOSED != 0 {
            return false;
        }
        let index = tail / ONE;
        let room = if planted("calm_room") { 2 * self.front.capacity } else { self.front.capacity / share };
        let end = self.back.head.load(order("calm_head", Ordering::Acquire)) + room;
        let end = end.min((index / SEGMENT as u64 + 1) * SEGMENT as u64);
        if end > index {
            self.front.segment.store(self.segment(index).as_ptr(), Ordering::Relaxed);
            self.front.calm.store(end * ONE, Ordering::Relaxed);
        }
        end > index
    }

    /// Ends the calm: the next push looks at everything. To be called under the producers' lock.
    #[inline]
    pub fn end_calm(&self) {
        if !planted("calm_end") {
            self.front.calm.store(0, Ordering::Relaxed);
        }
    }
}
