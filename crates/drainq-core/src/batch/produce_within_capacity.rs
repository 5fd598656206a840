//! Pushes into a queue with a capacity, which its partitions share: each item takes a place of the queue first.
//!
//! The invariants are those of `queue_capacity.rs`.

use super::item::Keyed;
use super::partition::{FAST_SHARE, Partition};
use super::queue::BatchQueue;
use super::queue_capacity::QueueCapacity;
use crate::ring::{Refusal, RingItem};
use crate::sync::atomic::Ordering;
use crate::sync::planted;

impl<T: RingItem + Keyed> BatchQueue<T> {
    /// Takes places for an item of this weight. Returns false if there is no room.
    pub(super) fn admit(&self, weight: u64) -> bool {
        self.capacity.as_ref().is_none_or(|capacity| capacity.places.admit(weight))
    }

    /// Queues an item in a queue with a capacity, for producers that share no lock.
    pub(super) fn push_within_capacity(
        &self,
        capacity: &QueueCapacity,
        at: &Partition<T>,
        item: T,
    ) -> Result<(), (T, Refusal)> {
        if !capacity.places.admit(1) {
            return Err((item, at.refusal()));
        }
        at.ring.push(item).inspect_err(|_| capacity.free(1))?;
        self.wake_sleeper(at);
        Ok(())
    }

    /// Queues an item in a queue with a capacity, for producers that share a lock.
    ///
    /// # Safety
    ///
    /// That of [`Self::try_produce_serialised`].
    pub(super) unsafe fn push_within_capacity_serialised(
        &self,
        capacity: &QueueCapacity,
        at: &Partition<T>,
        item: T,
    ) -> Result<(), (T, Refusal)> {
        self.close_fast_path(at);
        let has_place = capacity.places.admit(1) || (self.end_all_credit(capacity) && capacity.places.admit(1));
        if !has_place {
            return Err((item, at.refusal()));
        }
        // SAFETY: the caller's lock orders pushes and closes.
        unsafe { at.ring.push_serialised(item) }.inspect_err(|_| capacity.free(1))
    }

    /// Queues up to `places` items of one partition by `push`. The caller has taken the places; unused ones become
    /// free.
    pub(super) fn push_many_within_capacity(
        &self,
        capacity: &QueueCapacity,
        at: &Partition<T>,
        items: &mut std::vec::IntoIter<T>,
        places: u64,
        push: impl Fn(&mut std::vec::IntoIter<T>, usize) -> (usize, Option<Refusal>),
    ) -> (usize, Option<Refusal>) {
        let (pushed, refusal) = push(items, places as usize);
        capacity.free(places - pushed as u64);
        let refusal = refusal.or_else(|| (items.len() > 0).then(|| at.refusal()));
        (pushed, refusal)
    }

    /// Takes places for up to this many items of one partition, under the producers' lock; returns how many.
    pub(super) fn places_for_serialised(&self, capacity: &QueueCapacity, at: &Partition<T>, items: usize) -> u64 {
        self.close_fast_path(at);
        let (wanted, places) = (items as u64, capacity.places.admit_up_to(items as u64));
        if places < wanted && self.end_all_credit(capacity) {
            return places + capacity.places.admit_up_to(wanted - places);
        }
        places
    }

    /// Ends the credit of all partitions, under the producers' lock; returns whether any partition may have had some.
    #[cold]
    fn end_all_credit(&self, capacity: &QueueCapacity) -> bool {
        let credited = capacity.credited.load(Ordering::Relaxed) && !planted("bound_recall");
        if credited {
            self.layout.partitions().iter().for_each(|at| self.close_fast_path(at));
            capacity.credited.store(false, Ordering::Relaxed);
        }
        credited
    }

    /// Opens the fast path of a partition as far as the partition and the queue have room; returns whether it is open.
    ///
    /// # Safety
    ///
    /// That of [`Self::try_produce_serialised`].
    pub(super) unsafe fn open_fast_path_on_credit(&self, capacity: &QueueCapacity, at: &Partition<T>) -> bool {
        self.close_fast_path(at);
        let credit = capacity.credit();
        // SAFETY: the caller's lock orders pushes and closes.
        let open = unsafe { at.ring.open_fast_path(FAST_SHARE, credit) };
        capacity.free(credit - open);
        if open > 0 {
            capacity.credited.store(true, Ordering::Relaxed);
        }
        open > 0
    }
}
