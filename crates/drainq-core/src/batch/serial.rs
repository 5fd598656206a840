//! Producing where one lock keeps the producers apart, as the GIL does: no compare-and-swap, no
//! fence, and mostly no look at anything but the next place of a ring.
//!
//! # Invariants
//! 1. A drain thread that falls idle ends the calm of its partitions under the producers' lock,
//!    between saying that it sleeps and its second look. So an item that was produced in calm
//!    before that is seen by the look, and the next one looks, finds the sleeper and wakes it. A
//!    partition that changes hands needs no more: its new owner is woken for it, and ends its calm
//!    before it sleeps again.
//! 2. It is calm up to a quarter of a partition ([`CALM`]); from there on each push looks whether a
//!    thread naps, and its caller whether one wants the lock.
//! 3. In the queues of a pool it is never calm: a pool has no such moment.
//!
//! Source: the argument about the lock is that of `park.rs`; the calm is explained in `ring/serial.rs`.

use super::item::{Keyed, PartitionId};

use super::partition::Partition;
use super::queue::BatchQueue;
use crate::ring::Refusal;
use crate::sync::full_fence;
use crate::word::Word;

/// A partition is calm while it holds less than its capacity divided by this.
pub const CALM: u64 = 4;

impl<T: Word + Keyed> BatchQueue<T> {
    /// As [`Self::try_produce_to`], without a compare-and-swap and without a fence.
    ///
    /// # Safety
    ///
    /// One lock, held around each call, keeps all produce calls of this queue and
    /// [`Self::close`] apart. The queue's drain threads take the same lock in the `settle` of
    /// [`super::Drainer::next_step`] (or a wake-up may be lost, which is not unsafe).
    #[inline]
    pub unsafe fn try_produce_serialised(&self, partition: PartitionId, item: T) -> Result<(), (T, Refusal)> {
        // SAFETY: the caller keeps pushes and closes apart.
        unsafe { self.try_produce_at(self.partition(partition), item) }
    }

    /// As [`Self::try_produce_serialised`], for a partition that was looked up before.
    ///
    /// # Safety
    ///
    /// That of [`Self::try_produce_serialised`].
    #[inline]
    pub unsafe fn try_produce_at(&self, at: &Partition<T>, item: T) -> Result<(), (T, Refusal)> {
        if self.settings.weighed {
            return self.push_weighed(at, item);
        }
        // SAFETY: the caller keeps pushes and closes apart.
        unsafe { at.ring.push_serialised(item)? };
        // SAFETY: as above.
        unsafe { self.look_around(at) };
        Ok(())
    }

    /// As [`Self::try_produce_many`], without a compare-and-swap and without a fence.
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
        // SAFETY: the caller keeps pushes and closes apart.
        let (pushed, refusal) = unsafe { at.ring.push_many_serialised(items) };
        if pushed > 0 {
            // SAFETY: as above.
            unsafe { self.look_around(at) };
        }
        (pushed, refusal)
    }

    /// Wakes the partition's thread if it sleeps, and says for how long nobody needs to look
    /// again. Says whether it is calm now.
    ///
    /// # Safety
    ///
    /// That of [`Self::try_produce_serialised`].
    #[inline]
    pub unsafe fn look_around(&self, at: &Partition<T>) -> bool {
        if self.place.is_some() {
            full_fence("pool_fence");
            self.wake_sleeper(at);
            return false;
        }
        self.wake_sleeper(at);
        // SAFETY: the caller keeps pushes and closes apart.
        !self.settings.weighed && unsafe { at.ring.calm_down(CALM) }
    }
}
