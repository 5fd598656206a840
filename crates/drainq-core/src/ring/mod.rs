//! The buffer of a partition: many producers, one consumer, bounded, lock-free.
//!
//! The ring counts items by two indices that only grow: `tail` (claimed) and `head` (taken). An item is pushed in two
//! steps: a compare-and-swap on `tail` claims a slot, a store publishes the item in that slot. A producer whose
//! compare-and-swap fails yields the processor before it tries again. The consumer takes published items in order and
//! frees their slots by one store to `head`. The indices also serve as the counters of the items that were accepted and
//! taken, so counting costs nothing.
//!
//! The slots are in segments of [`SEGMENT`] slots. A slot holds an item as a word or inline (`slot.rs`). A segment is
//! allocated when its first slot is claimed, and recycled or freed when its last slot was taken. The memory depends on
//! the number of queued items, not on the capacity: a ring keeps about as many spare segments as it has in use. A
//! directory maps an index to its segment. If there is no memory for a segment, the ring refuses the items of
//! serialised producers. Any other producer has already claimed a slot, so the process aborts, as it does for a `Box`.
//!
//! # Invariants
//! 1. `head <= tail <= head + capacity`: a producer claims `index` only after it read a head above `index -
//!    capacity`, so the capacity is exact.
//! 2. A slot is changed by the one producer that claimed it, from empty to an item, and by the consumer, from an item
//!    to empty. Empty means: claimed and not published, or free.
//! 3. The consumer empties a slot, and takes a used-up segment out of the directory, before it moves `head` beyond it
//!    with `Release`. A producer reads `head` with `Acquire` before it claims, so it never sees an item or a segment
//!    of an earlier round: the directory has room for one segment more than the capacity. Instead of `head` a producer
//!    may read `limit` with `Acquire`, which another producer stored with `Release` after it had read `head`. An old
//!    limit is too low, never too high.
//! 4. A segment in the directory lives at least until all its slots were taken, so a producer whose slot is not
//!    published yet may use the segment.
//! 5. After [`Ring::close`] no claim succeeds: the CLOSED bit is in the word that a claim compares, so each push is
//!    either before the close or refused.
//! 6. `take` is called by one thread at a time, each call after the end of the last one (its caller is in a pass over
//!    the partition, or has the counts locks of all workers).
//!
//! Source: FastFlow's and JCTools' pointer rings (null as the mark of an empty slot), JCTools' chunked MPSC queues
//! (segments), crossbeam's channels (the mark bit in the tail; an item beside its mark in a slot).

mod fast_path;
mod item;
mod segments;
mod slot;

pub use item::RingItem;
pub use slot::{Inline, MAX_INLINE, Word, WordItem};

use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sync::{Backoff, CachePadded, order, planted, thread};
use crate::wait::sleeper::fence_after_swap;
use segments::{Directory, SEGMENT, Segment, Spares};
use slot::Slot;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// The most slots that one claim takes. So a producer that stalls between claim and publication keeps no more slots
/// than this unpublished.
pub const CLAIM: usize = 1024;

/// The most items that fit into one ring. The ring's directory of segments takes one byte for each 32 items.
pub const MAX_CAPACITY: usize = 1 << 30;

const CLOSED: u64 = 1;
const ONE: u64 = 2;

/// Why an item was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no room.
    Full,
    /// The ring was closed.
    Closed,
    /// There is no memory for a segment.
    NoMemory,
}

/// A bounded queue of ring items for many producers and one consumer.
///
/// The owner's `extra` lies on the cache line that a push needs, so producers read it at no cost.
pub struct Ring<T: RingItem, B = ()> {
    front: CachePadded<Front<T, B>>,
    back: CachePadded<Back<T>>,
    items: PhantomData<T>,
}

/// The fields for a push, on one cache line.
struct Front<T: RingItem, B> {
    /// Index of the next slot to claim, times two, plus the CLOSED bit.
    tail: AtomicU64,
    /// The first index that was not free when a producer last read `head`.
    limit: AtomicU64,
    capacity: u64,
    /// The segments by index.
    directory: Directory<T>,
    /// The tail at which the fast path ends (`fast_path.rs`), and the segment of the slots before it.
    fast_until: AtomicU64,
    segment: AtomicPtr<Segment<T>>,
    extra: B,
}

/// The fields that the consumer writes.
struct Back<T: RingItem> {
    /// Index of the next slot to take; written only by the consumer.
    head: AtomicU64,
    /// Used segments, kept for the next producers that need one.
    spares: Spares<T>,
}

// SAFETY: the ring owns items of type T, which are Send, and hands each to one thread
// (invariants 2 and 6); all else in it is atomic.
unsafe impl<T: RingItem, B: Send> Send for Ring<T, B> {}
// SAFETY: as above; `take` is unsafe and states its own condition.
unsafe impl<T: RingItem, B: Sync> Sync for Ring<T, B> {}

impl<T: RingItem> Ring<T> {
    /// Makes an empty ring for exactly `capacity` items.
    ///
    /// # Panics
    ///
    /// That of [`Ring::with`].
    pub fn new(capacity: usize) -> Self {
        Self::with(capacity, ())
    }
}

impl<T: RingItem, B> Ring<T, B> {
    /// Makes a ring as [`Ring::new`] does, with the owner's `extra` next to the tail.
    ///
    /// # Panics
    ///
    /// If `capacity` is 0 or more than [`MAX_CAPACITY`].
    pub fn with(capacity: usize, extra: B) -> Self {
        let bounds = 1..=MAX_CAPACITY;
        assert!(bounds.contains(&capacity), "a ring has room for 1 to {MAX_CAPACITY} items, not {capacity}");
        Self {
            front: CachePadded::new(Front {
                tail: AtomicU64::new(0),
                limit: AtomicU64::new(capacity as u64),
                capacity: capacity as u64,
                directory: Directory::new(capacity),
                fast_until: AtomicU64::new(0),
                segment: AtomicPtr::new(ptr::null_mut()),
                extra,
            }),
            back: CachePadded::new(Back { head: AtomicU64::new(0), spares: Spares::new() }),
            items: PhantomData,
        }
    }

    /// Returns the value that the ring's owner stores next to the tail.
    #[inline]
    pub fn extra(&self) -> &B {
        &self.front.extra
    }

    /// Returns the number of items that fit.
    pub fn capacity(&self) -> usize {
        self.front.capacity as usize
    }

    /// Returns the number of items accepted since the ring was made.
    #[inline]
    pub fn accepted(&self) -> u64 {
        self.front.tail.load(Ordering::Acquire) / ONE
    }

    /// Returns the number of items taken since the ring was made.
    #[inline]
    pub fn taken(&self) -> u64 {
        self.back.head.load(order("ring_len", Ordering::Acquire))
    }

    /// Returns the number of items accepted and not taken. The number is exact while no thread pushes or takes.
    #[inline]
    pub fn len(&self) -> usize {
        // The head is read before the tail, and with Acquire, so that the difference is not negative: a thread that
        // sees a head sees the tail that the consumer saw.
        let taken = self.taken();
        (self.accepted() - taken).min(self.front.capacity) as usize
    }

    /// Whether everything accepted was taken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether [`Ring::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.front.tail.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Returns the bytes that the ring holds now, including its own structure and its whole directory.
    pub fn allocated_bytes(&self) -> usize {
        size_of::<Self>() + self.front.directory.allocated_bytes() + self.back.spares.allocated_bytes()
    }

    /// Refuses every push from now on.
    pub fn close(&self) {
        self.close_fast_path();
        self.front.tail.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Queues `item`, or returns it with the reason.
    #[inline]
    pub fn push(&self, item: T) -> Result<(), (T, Refusal)> {
        match self.claim::<false>(1) {
            Ok((index, _)) => {
                self.publish(index, item);
                Ok(())
            }
            Err(refusal) => Err((item, refusal)),
        }
    }

    /// Queues up to `most` items in order while there is room. Returns how many it queued and, if the next item was
    /// refused, the reason.
    pub fn push_many(&self, items: &mut std::vec::IntoIter<T>, most: usize) -> (usize, Option<Refusal>) {
        self.publish_many::<false>(items, most)
    }

    fn publish_many<const SERIALISED: bool>(
        &self,
        items: &mut std::vec::IntoIter<T>,
        most: usize,
    ) -> (usize, Option<Refusal>) {
        let (mut pushed, wanted) = (0, most.min(items.len()));
        while pushed < wanted {
            match self.claim::<SERIALISED>((wanted - pushed).min(CLAIM)) {
                Ok((first, count)) => {
                    self.publish_run(first, count as usize, items);
                    pushed += count as usize;
                }
                Err(refusal) => return (pushed, Some(refusal)),
            }
        }
        (pushed, None)
    }

    /// Claims up to `wanted` slots: by one compare-and-swap, with the producer's fence of [`crate::wait::sleeper`], or
    /// by one store if the producers share a lock. Returns the first index and the number of slots.
    #[inline]
    fn claim<const SERIALISED: bool>(&self, wanted: usize) -> Result<(u64, u64), Refusal> {
        let mut tail = self.front.tail.load(Ordering::Relaxed);
        loop {
            if tail & CLOSED != 0 {
                return Err(Refusal::Closed);
            }
            let index = tail / ONE;
            let wanted = wanted as u64;
            let mut room = self.front.limit.load(order("ring_limit_read", Ordering::Acquire)).saturating_sub(index);
            if room < wanted {
                room = self.read_head_for_room(index);
                if room == 0 {
                    return Err(Refusal::Full);
                }
            }
            let mut count = room.min(wanted);
            if planted("ring_check_then_push") {
                return Ok((self.front.tail.fetch_add(count * ONE, Ordering::Relaxed) / ONE, count));
            }
            if SERIALISED {
                count = self.provide_segments(index, count)?;
                self.front.tail.store(tail + count * ONE, Ordering::Relaxed);
                return Ok((index, count));
            }
            match self.front.tail.compare_exchange_weak(tail, tail + count * ONE, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => {
                    fence_after_swap();
                    return Ok((index, count));
                }
                Err(_) => {
                    // Another producer is at this ring at the same moment. Without a yield both would meet again at the
                    // next rings, in step, and each push would wait for a cache line of the other.
                    thread::yield_now();
                    tail = self.front.tail.load(Ordering::Relaxed);
                }
            }
        }
    }

    /// Reads `head` again, stores the new limit for all producers, and returns how many slots are free from `index` on.
    #[cold]
    fn read_head_for_room(&self, index: u64) -> u64 {
        let limit = self.back.head.load(order("ring_head", Ordering::Acquire)) + self.front.capacity;
        self.front.limit.store(limit, order("ring_limit", Ordering::Release));
        limit.saturating_sub(index)
    }

    /// Makes the segments of the next `count` slots before a serialised producer claims these slots, because a claim
    /// cannot be taken back. Returns for how many of the slots there is memory.
    #[inline]
    fn provide_segments(&self, index: u64, count: u64) -> Result<u64, Refusal> {
        let (mut provided, end) = (index, index + count);
        while provided < end && self.front.directory.provide(provided, &self.back.spares).is_some() {
            provided = (provided / SEGMENT as u64 + 1) * SEGMENT as u64;
        }
        if provided == index { Err(Refusal::NoMemory) } else { Ok(provided.min(end) - index) }
    }

    /// Returns the segment of a claimed index.
    #[inline]
    fn segment(&self, index: u64) -> NonNull<Segment<T>> {
        self.front.directory.segment(index, &self.back.spares)
    }

    /// Puts `item` into the slot that this thread claimed.
    #[inline]
    fn publish(&self, index: u64, item: T) {
        let segment = self.segment(index);
        // SAFETY: the slot `index` is claimed and not published, so its segment is in the
        // directory and lives (invariant 4).
        unsafe { T::Slot::publish(Segment::slot(segment, index), item) };
    }

    /// Puts items into the `count` slots from `first` on, which this thread claimed, looking
    /// up each segment once.
    fn publish_run(&self, first: u64, count: usize, items: &mut std::vec::IntoIter<T>) {
        let (mut index, end) = (first, first + count as u64);
        while index < end {
            let segment = self.segment(index);
            for item in items.by_ref().take(segments::run(index, end)) {
                // SAFETY: each slot of the run is claimed and not published, so the segment lives until the last slot
                // is published (invariant 4). After that this loop does not touch the segment.
                unsafe { T::Slot::publish(Segment::slot(segment, index), item) };
                index += 1;
            }
        }
    }

    /// Moves up to `max` items to the end of `out`, oldest first; returns how many.
    ///
    /// # Safety
    ///
    /// Calls do not overlap: each starts after the end of the last one (invariant 6).
    pub unsafe fn take(&self, max: usize, out: &mut Vec<T>) -> usize {
        let head = self.back.head.load(Ordering::Relaxed);
        // This loop reads no slot beyond the tail, because a segment beyond the tail may be freed.
        let tail = self.front.tail.load(Ordering::Acquire) / ONE;
        let end = tail.min(head + max as u64);
        out.reserve((end - head) as usize);
        let mut index = head;
        'segments: while index < end {
            let found = self.front.directory.entry(index).load(order("segment_read", Ordering::Acquire));
            let Some(segment) = NonNull::new(found) else { break };
            for _ in 0..segments::run(index, end) {
                // SAFETY: only this thread takes items, and segments out of the directory (invariant 6).
                let item = unsafe { T::Slot::take(Segment::slot(segment, index)) };
                let Some(item) = item else { break 'segments };
                out.push(item);
                index += 1;
            }
            if (index as usize).is_multiple_of(SEGMENT) {
                self.front.directory.entry(index - 1).store(ptr::null_mut(), Ordering::Relaxed);
                self.back.spares.recycle(segment, (tail - index).div_ceil(SEGMENT as u64));
            }
        }
        if index != head {
            self.back.head.store(index, order("ring_free", Ordering::Release));
        }
        (index - head) as usize
    }

    /// Calls `see` with each item that was accepted up to index `end` and not taken, oldest first. Waits for the
    /// items whose producers are about to publish them.
    ///
    /// # Safety
    ///
    /// As for [`Ring::take`]. No `take` runs at the same time (invariant 6). `end` is at most a number that
    /// [`Ring::accepted`] returned.
    pub unsafe fn for_each(&self, end: u64, mut see: impl FnMut(&T)) {
        for index in self.taken()..end {
            let backoff = Backoff::new();
            loop {
                let segment = NonNull::new(self.front.directory.entry(index).load(Ordering::Acquire));
                // SAFETY: only a take takes items, and segments out of the directory, and none runs now.
                let show = |segment| unsafe { T::Slot::show(Segment::slot(segment, index), &mut see) };
                if segment.is_some_and(show) {
                    break;
                }
                backoff.snooze();
            }
        }
    }
}

impl<T: RingItem, B> Drop for Ring<T, B> {
    fn drop(&mut self) {
        let mut left = Vec::new();
        // SAFETY: `&mut self`: no other thread has the ring (invariant 6).
        unsafe { self.take(usize::MAX >> 2, &mut left) };
        // The entries before that of the head are empty (invariant 3), and no segment was made after that of the tail.
        // SAFETY: as above, and the ring ends here.
        unsafe { self.front.directory.free(self.taken(), self.accepted()) };
    }
}

#[cfg(all(test, not(any(loom, drainq_shuttle))))]
mod tests;
