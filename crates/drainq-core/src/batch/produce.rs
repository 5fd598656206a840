//! Producing: an item goes into the ring of its partition, and the drain thread of the partition is woken if it sleeps.
//!
//! Producers that share no lock claim a slot by compare-and-swap. The claim includes the fence that `wait/sleeper.rs`
//! requires of a producer. Producers that share a lock, as all threads of CPython share the GIL, need neither a
//! compare-and-swap nor a fence (`..._serialised`, [`BatchQueue::try_produce_at`]). While the *fast path* of a
//! partition is open, such a producer only stores the item. `ring/fast_path.rs` keeps the tail at which the fast path
//! ends.
//!
//! # Invariants
//! 1. A drain thread that falls idle sets its sleeper's state, closes the fast path of its partitions under the
//!    producers' lock, and then checks for items a second time. The second check finds every item pushed before the
//!    fast path closed. Every later push takes the slow path and wakes the sleeper. A partition that changes its owner
//!    needs no further step: its new owner is woken, and closes the fast path before it sleeps again.
//! 2. The fast path is open up to a quarter of a partition ([`FAST_SHARE`]). Above that, each push checks whether the
//!    drain thread naps, and its caller checks whether a drain thread waits for the lock.
//! 3. In a queue of a shared scheduler the fast path is never open, because the scheduler's drain threads do not close
//!    it.
//! 4. A producer that shares no lock and does not wait for room ([`BufferStrategy::IfPossible`]) yields the processor
//!    twice and tries once more before its item is refused. Refusals are so cheap that the producers would otherwise
//!    keep the drain threads off the processors, and most items would be dropped.
//!
//! Source: the argument about the lock is that of `wait/sleeper.rs`.

use super::config::BufferStrategy;
use super::item::{Keyed, PartitionId, weight_of};
use super::partition::{FAST_SHARE, Partition};
use super::queue::BatchQueue;
use crate::ring::{Refusal, RingItem};
use crate::sync::{full_fence, planted, thread};
use crate::wait::sleeper::producer_fence;
use crate::wait::waiters::Waiter;
use std::time::Duration;

/// The number of times that a producer yields the processor before its item is refused (invariant 4). With two yields,
/// 32 producers on two processors let the drain threads run. Two yields make a refusal about a microsecond slower.
const YIELDS_BEFORE_REFUSAL: usize = 2;

impl<T: RingItem + Keyed> BatchQueue<T> {
    /// Queues an item in the partition of its key, without waiting for room, and wakes the drain thread.
    ///
    /// A queue with [`BufferStrategy::IfPossible`] tries a full partition once more after two yields (invariant 4). A
    /// refusal is not counted, because the caller may try again: see [`Self::count_rejected`].
    #[inline]
    pub fn try_produce(&self, item: T) -> Result<(), (T, Refusal)> {
        self.push(self.layout.target(item.key()), item)
    }

    /// Queues an item as [`Self::try_produce`] does, into the partition that the caller names.
    #[inline]
    pub fn try_produce_to(&self, partition: PartitionId, item: T) -> Result<(), (T, Refusal)> {
        self.push(self.partition(partition), item)
    }

    #[inline]
    fn push(&self, at: &Partition<T>, item: T) -> Result<(), (T, Refusal)> {
        match self.try_produce_once(at, item) {
            Err((item, Refusal::Full)) => self.push_once_more(at, item),
            done => done,
        }
    }

    #[cold]
    fn push_once_more(&self, at: &Partition<T>, item: T) -> Result<(), (T, Refusal)> {
        if self.settings.strategy == BufferStrategy::Blocking {
            return Err((item, Refusal::Full));
        }
        for _ in 0..YIELDS_BEFORE_REFUSAL {
            thread::yield_now();
        }
        self.try_produce_once(at, item)
    }

    /// Queues an item as [`Self::try_produce_to`] does, into a partition that was looked up before, and tries once.
    #[inline]
    pub fn try_produce_once(&self, at: &Partition<T>, item: T) -> Result<(), (T, Refusal)> {
        if self.settings.weighed {
            return self.push_weighed(at, item, |item| at.ring.push(item));
        }
        if let Some(capacity) = &self.capacity {
            return self.push_within_capacity(capacity, at, item);
        }
        at.ring.push(item)?;
        self.wake_sleeper(at);
        Ok(())
    }

    #[cold]
    fn push_weighed(
        &self,
        at: &Partition<T>,
        item: T,
        push: impl FnOnce(T) -> Result<(), (T, Refusal)>,
    ) -> Result<(), (T, Refusal)> {
        let weight = weight_of(&item, true);
        if !at.weights.admit(weight) {
            return Err((item, at.refusal()));
        }
        if !self.admit(weight) {
            at.weights.take_back(weight);
            return Err((item, at.refusal()));
        }
        push(item).inspect_err(|_| {
            at.weights.take_back(weight);
            self.capacity.iter().for_each(|capacity| capacity.free(weight));
        })?;
        self.wake_sleeper(at);
        Ok(())
    }

    /// Queues items of one key in order, while there is room; returns how many, and the reason if any are left.
    ///
    /// # Panics
    ///
    /// If the queue weighs its items, because each of them must fit by itself.
    pub fn try_produce_many(
        &self,
        partition: PartitionId,
        items: &mut std::vec::IntoIter<T>,
    ) -> (usize, Option<Refusal>) {
        self.try_produce_many_at(self.partition(partition), items)
    }

    /// Queues items as [`Self::try_produce_many`] does, into a partition that was looked up before.
    ///
    /// # Panics
    ///
    /// That of [`Self::try_produce_many`].
    pub fn try_produce_many_at(
        &self,
        at: &Partition<T>,
        items: &mut std::vec::IntoIter<T>,
    ) -> (usize, Option<Refusal>) {
        assert!(!self.settings.weighed, "items that are weighed go one by one");
        let push = |items: &mut _, most| at.ring.push_many(items, most);
        let (pushed, refusal) = match &self.capacity {
            None => push(items, usize::MAX),
            Some(capacity) => self.push_many_within_capacity(
                capacity,
                at,
                items,
                capacity.places.admit_up_to(items.len() as u64),
                push,
            ),
        };
        if pushed > 0 {
            self.wake_sleeper(at);
        }
        (pushed, refusal)
    }

    #[inline]
    fn wake_owner(&self, partition: &Partition<T>) {
        producer_fence();
        self.wake_sleeper(partition);
    }

    /// Wakes the owner of a partition if the owner sleeps. Call this after a fence or a claim, or under the producers'
    /// lock.
    #[inline]
    pub(super) fn wake_sleeper(&self, partition: &Partition<T>) {
        self.workers[usize::from(partition.ownership().owner())].sleeper.wake(|| self.is_half_full(partition));
    }

    /// Makes this thread a waiter for room in the partition or, with a capacity, in the queue. Wakes the drain threads.
    pub fn wait_for_room(&self, partition: PartitionId) -> Waiter<'_> {
        let at = self.partition(partition);
        let Some(capacity) = &self.capacity else {
            let waiter = at.room_waiters.enter();
            self.wake_owner(at);
            return waiter;
        };
        let waiter = capacity.room_waiters.enter();
        producer_fence();
        self.wake_all();
        waiter
    }

    /// Queues `item`. If there is no room, waits once for a notification, up to `timeout`, and tries again. Returns the
    /// item if it was not accepted.
    pub fn produce_within(
        &self,
        partition: PartitionId,
        item: T,
        waiter: &mut Waiter<'_>,
        timeout: Duration,
    ) -> Result<(), (T, Refusal)> {
        match self.try_produce_to(partition, item) {
            Err((item, Refusal::Full)) => {
                waiter.wait(timeout);
                self.try_produce_to(partition, item)
            }
            done => done,
        }
    }

    /// Queues an item as [`Self::try_produce_to`] does, without a compare-and-swap and without a fence.
    ///
    /// # Safety
    ///
    /// All produce calls of this queue, and [`Self::close`], run under one lock. The drain threads take the same lock
    /// in the `sync_with_producers` of [`super::Drainer::next_step`]; if they do not, a wake-up may be lost, which is
    /// not unsafe.
    #[inline]
    pub unsafe fn try_produce_serialised(&self, partition: PartitionId, item: T) -> Result<(), (T, Refusal)> {
        // SAFETY: the caller's lock orders pushes and closes.
        unsafe { self.try_produce_at(self.partition(partition), item) }
    }

    /// Queues an item as [`Self::try_produce_serialised`] does, into a partition that was looked up before.
    ///
    /// # Safety
    ///
    /// That of [`Self::try_produce_serialised`].
    #[inline]
    pub unsafe fn try_produce_at(&self, at: &Partition<T>, item: T) -> Result<(), (T, Refusal)> {
        if self.settings.weighed {
            // SAFETY: the caller's lock orders pushes and closes.
            return self.push_weighed(at, item, |item| unsafe { at.ring.push_serialised(item) });
        }
        // SAFETY: the caller's lock orders pushes and closes.
        if self.registration.is_none() && unsafe { self.open_fast_path(at) } {
            // SAFETY: as above. The fast path is open, so the push succeeds.
            unsafe { at.ring.push_fast(|| item) };
        } else if let Some(capacity) = &self.capacity {
            // SAFETY: as above.
            unsafe { self.push_within_capacity_serialised(capacity, at, item)? };
        } else {
            // SAFETY: as above.
            unsafe { at.ring.push_serialised(item)? };
        }
        self.wake_after_push(at);
        Ok(())
    }

    /// Queues items as [`Self::try_produce_many`] does, without a compare-and-swap and without a fence.
    ///
    /// # Panics
    ///
    /// That of [`Self::try_produce_many`].
    ///
    /// # Safety
    ///
    /// That of [`Self::try_produce_serialised`].
    pub unsafe fn try_produce_many_serialised(
        &self,
        partition: PartitionId,
        items: &mut std::vec::IntoIter<T>,
    ) -> (usize, Option<Refusal>) {
        let at = self.partition(partition);
        assert!(!self.settings.weighed, "items that are weighed go one by one");
        // SAFETY: the caller's lock orders pushes and closes.
        let push = |items: &mut _, most| unsafe { at.ring.push_many_serialised(items, most) };
        let (pushed, refusal) = match &self.capacity {
            None => push(items, usize::MAX),
            Some(capacity) => {
                let places = self.places_for_serialised(capacity, at, items.len());
                self.push_many_within_capacity(capacity, at, items, places, push)
            }
        };
        if pushed > 0 {
            // SAFETY: as above.
            unsafe { self.wake_and_open_fast_path(at) };
        }
        (pushed, refusal)
    }

    /// Wakes the partition's drain thread if it sleeps, and opens the fast path as far as there is room; returns
    /// whether it is open.
    ///
    /// # Safety
    ///
    /// That of [`Self::try_produce_serialised`].
    #[inline]
    pub unsafe fn wake_and_open_fast_path(&self, at: &Partition<T>) -> bool {
        self.wake_after_push(at);
        // SAFETY: the caller's lock orders pushes and closes.
        self.registration.is_none() && !self.settings.weighed && unsafe { self.open_fast_path(at) }
    }

    /// Wakes the partition's drain thread if it sleeps, after a push under the producers' lock. The drain threads of a
    /// shared scheduler do not take that lock, so the producer runs a fence.
    fn wake_after_push(&self, at: &Partition<T>) {
        if self.registration.is_some() {
            full_fence("pool_fence");
        }
        self.wake_sleeper(at);
    }

    /// Opens the fast path of a partition as far as there is room; returns whether it is open.
    ///
    /// # Safety
    ///
    /// That of [`Self::try_produce_serialised`].
    unsafe fn open_fast_path(&self, at: &Partition<T>) -> bool {
        match &self.capacity {
            // SAFETY: the caller's lock orders pushes and closes.
            None => unsafe { at.ring.open_fast_path(FAST_SHARE, u64::MAX) > 0 },
            // SAFETY: as above.
            Some(capacity) => unsafe { self.open_fast_path_on_credit(capacity, at) },
        }
    }

    /// Closes a partition's fast path and ends its credit, so that the next push checks everything. Call this under the
    /// producers' lock.
    pub fn close_fast_path(&self, at: &Partition<T>) {
        let unused = at.ring.close_fast_path();
        if let Some(capacity) = &self.capacity
            && !planted("bound_credit_end")
        {
            capacity.free(unused);
        }
    }

    /// Returns how many producers of a partition may try, after a pass has made room: one for each free slot, or all of
    /// them in a queue with a capacity or with weights. Call this for producers that wait as tasks, not threads.
    pub fn room_in(&self, partition: PartitionId) -> usize {
        match self.partition(partition).room() {
            room if room > 0 && self.capacity.is_some() => usize::MAX,
            room => room,
        }
    }

    /// Whether at least `1 / share` is used of the partition's capacity or, in a queue with a capacity, of the queue's.
    #[inline]
    pub fn holds_one_in(&self, at: &Partition<T>, share: u64) -> bool {
        at.holds_one_in(share) || self.capacity.as_ref().is_some_and(|capacity| capacity.holds_one_in(share))
    }

    /// Whether the partition, or the queue, is at least half full, which ends the nap of a drain thread.
    #[inline]
    pub(super) fn is_half_full(&self, at: &Partition<T>) -> bool {
        self.holds_one_in(at, 2)
    }
}
