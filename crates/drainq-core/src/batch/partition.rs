//! One partition: a ring, its ownership, and the producers that wait for room.
//!
//! The ownership and the taking end of the ring are private, because `unsafe` blocks rely on them. Code outside of this
//! crate reads a partition, and pushes through the queue or by [`Partition::push_fast`].
//!
//! ```
//! # use drainq_core::batch::{BatchQueue, Grouping, Key, Keyed, Settings};
//! # struct Hit(Key);
//! # impl Keyed for Box<Hit> { fn key(&self) -> Key { self.0 } }
//! let settings = Settings::new(1);
//! let queue: BatchQueue<Box<Hit>> = BatchQueue::new("hits", settings, Grouping::ByKey);
//! assert_eq!((queue.partition(0).owner(), queue.partition(0).len()), (0, 0));
//! ```
//!
//! ```compile_fail
//! # use drainq_core::batch::{BatchQueue, Grouping, Key, Keyed, Settings};
//! # struct Hit(Key);
//! # impl Keyed for Box<Hit> { fn key(&self) -> Key { self.0 } }
//! let settings = Settings::new(1);
//! let queue: BatchQueue<Box<Hit>> = BatchQueue::new("hits", settings, Grouping::ByKey);
//! queue.partition(0).ownership().end(); // private: only a drainer ends the pass that it began
//! ```

use super::item::ThreadId;

use super::partition_handoff::Ownership;
use super::weights::Weights;
use crate::ring::{Refusal, Ring, RingItem};
use crate::sync::atomic::{AtomicU32, AtomicU64};
use crate::wait::waiters::Waiters;

/// The fast path of a partition is open while less than `1 / FAST_SHARE` is used of the partition's capacity and, in a
/// queue with a capacity, of the queue's.
pub const FAST_SHARE: u64 = 4;

/// A buffer that one drain thread at a time empties.
pub struct Partition<T: RingItem> {
    /// The queued items. The ownership is the extra of the ring, on the cache line that producers read to wake the
    /// owner.
    pub(crate) ring: Ring<T, Ownership>,
    /// The weight of the queued items, if the queue weighs items.
    pub(super) weights: Weights,
    /// The producers that wait for room.
    pub(super) room_waiters: Waiters,
    /// All items accepted up to this ring index are accounted for.
    pub(super) completed: AtomicU64,
    /// The number of types of this partition whose handlers want idle reports.
    pub(super) idle_reports: AtomicU32,
}

impl<T: RingItem> Partition<T> {
    /// Makes an empty partition that `owner` drains.
    pub(super) fn new(capacity: usize, weighed: bool, owner: ThreadId) -> Self {
        Self {
            ring: Ring::with(capacity, Ownership::new(owner)),
            weights: Weights::new(weighed, capacity),
            room_waiters: Waiters::new(),
            completed: AtomicU64::new(0),
            idle_reports: AtomicU32::new(0),
        }
    }

    /// Returns the ownership word, which decides which drain thread may take from the partition.
    #[inline]
    pub(super) fn ownership(&self) -> &Ownership {
        self.ring.extra()
    }

    /// Returns the drain thread that owns the partition.
    pub fn owner(&self) -> ThreadId {
        self.ownership().owner()
    }

    /// Returns the number of queued items. The number is exact while no thread pushes or takes.
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Whether no item is queued.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Returns the number of threads that wait for room here; 0 in a queue with a capacity (`queue_capacity.rs`).
    pub fn waiting(&self) -> usize {
        self.room_waiters.len()
    }

    /// Returns the number of items accepted so far, or their weight in a queue that weighs items. The result is
    /// approximate while producers run.
    pub(super) fn accepted(&self) -> u64 {
        self.weights.used_and_taken().map_or_else(|| self.ring.accepted(), |(used, taken)| used + taken)
    }

    /// Returns the number or the weight of the items taken so far.
    pub(super) fn taken(&self) -> u64 {
        self.weights.used_and_taken().map_or_else(|| self.ring.taken(), |(_, taken)| taken)
    }

    /// Whether at least the capacity divided by `share` is used.
    #[inline]
    pub(super) fn holds_one_in(&self, share: u64) -> bool {
        let used = self.weights.used_and_taken().map_or_else(|| self.ring.len() as u64, |(used, _)| used);
        share * used >= self.ring.capacity() as u64
    }

    /// Calls [`Ring::push_fast`]. In a queue that weighs its items the fast path is never open.
    ///
    /// # Safety
    ///
    /// That of [`Ring::push_fast`], for all produce calls and the close of the queue.
    #[inline(always)]
    pub unsafe fn push_fast(&self, make: impl FnOnce() -> T) -> bool {
        // SAFETY: the caller's promise is that of the ring's method.
        unsafe { self.ring.push_fast(make) }
    }

    /// Calls [`Ring::push_fast_while`].
    ///
    /// # Safety
    ///
    /// That of [`Self::push_fast`].
    #[inline(always)]
    pub unsafe fn push_fast_while(&self, next: impl FnMut() -> Option<T>) -> usize {
        // SAFETY: the caller's promise is that of the ring's method.
        unsafe { self.ring.push_fast_while(next) }
    }

    /// Returns how many more items fit. In a queue that weighs items: `usize::MAX` if an item may fit, otherwise 0.
    pub(super) fn room(&self) -> usize {
        let capacity = self.ring.capacity();
        match self.weights.used_and_taken() {
            Some((used, _)) => usize::from(used < capacity as u64) * usize::MAX,
            None => capacity.saturating_sub(self.ring.len()),
        }
    }

    /// Returns why the partition refuses an item: it is closed, or else full.
    pub(super) fn refusal(&self) -> Refusal {
        if self.ring.is_closed() { Refusal::Closed } else { Refusal::Full }
    }
}
