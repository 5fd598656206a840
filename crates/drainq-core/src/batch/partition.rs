//! One partition: a ring, the lease on it, and the producers that wait for room.
//!
//! What an `unsafe` rests on is not public: who takes from the ring, and the lease that says so.
//! From outside a partition is looked at, and pushed into by the queue, or by [`Partition::push_fast`].
//!
//! ```
//! # use drainq_core::batch::{BatchQueue, Grouping, Key, Keyed, Settings, ThreadPolicy};
//! # struct Hit(Key);
//! # impl Keyed for Box<Hit> { fn key(&self) -> Key { self.0 } }
//! let settings = Settings::new(ThreadPolicy::fixed(1).unwrap());
//! let queue: BatchQueue<Box<Hit>> = BatchQueue::new("hits", settings, Grouping::ByKey);
//! assert_eq!((queue.partition(0).owner(), queue.partition(0).len()), (0, 0));
//! ```
//!
//! ```compile_fail
//! # use drainq_core::batch::{BatchQueue, Grouping, Key, Keyed, Settings, ThreadPolicy};
//! # struct Hit(Key);
//! # impl Keyed for Box<Hit> { fn key(&self) -> Key { self.0 } }
//! let settings = Settings::new(ThreadPolicy::fixed(1).unwrap());
//! let queue: BatchQueue<Box<Hit>> = BatchQueue::new("hits", settings, Grouping::ByKey);
//! queue.partition(0).ownership().end(); // private: only a drainer ends the pass that it began
//! ```

use super::item::ThreadId;

use super::handoff::Ownership;
use super::weights::Weights;
use crate::ring::Ring;
use crate::ring::RingItem;
use crate::sync::atomic::{AtomicU32, AtomicU64};
use crate::wait::waiters::Waiters;

/// A buffer that one drain thread at a time empties.
pub struct Partition<T: RingItem> {
    /// What is queued, and beside it the ownership: producers read the owner to wake it.
    pub(crate) ring: Ring<T, Ownership>,
    /// What is queued in weights, if the queue weighs items.
    pub(super) weights: Weights,
    /// Who waits for room in it.
    pub(super) room_waiters: Waiters,
    /// Everything accepted up to this index has been through a handler call, or was
    /// accounted for in another way.
    pub(super) completed: AtomicU64,
    /// Types routed here of which somebody wants to hear when a pass finds nothing.
    pub(super) idle_reports: AtomicU32,
}

impl<T: RingItem> Partition<T> {
    /// An empty partition that `owner` drains.
    pub(super) fn new(capacity: usize, weighed: bool, owner: ThreadId) -> Self {
        Self {
            ring: Ring::with(capacity, Ownership::new(owner)),
            weights: Weights::new(weighed, capacity),
            room_waiters: Waiters::new(),
            completed: AtomicU64::new(0),
            idle_reports: AtomicU32::new(0),
        }
    }

    /// Who may take from it.
    #[inline]
    pub(super) fn ownership(&self) -> &Ownership {
        self.ring.extra()
    }

    /// The drain thread that may take from it, or is doing so.
    pub fn owner(&self) -> ThreadId {
        self.ownership().owner()
    }

    /// Items queued in it. Exact while nobody pushes or takes.
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Whether nothing is queued in it.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Producers that wait for room in it.
    pub fn waiting(&self) -> usize {
        self.room_waiters.len()
    }

    /// What came in so far: items, or their weight where it counts, as of about now.
    pub(super) fn came_in(&self) -> u64 {
        self.weights.used_and_taken().map_or_else(|| self.ring.accepted(), |(used, taken)| used + taken)
    }

    /// What was taken away so far, in the same unit.
    pub(super) fn taken(&self) -> u64 {
        self.weights.used_and_taken().map_or_else(|| self.ring.taken(), |(_, taken)| taken)
    }

    /// Whether it is worth waking a thread from its nap.
    #[inline]
    pub fn is_half_full(&self) -> bool {
        self.holds_one_in(2)
    }

    /// Whether at least the capacity divided by `share` is taken.
    #[inline]
    pub fn holds_one_in(&self, share: u64) -> bool {
        let used = self.weights.used_and_taken().map_or_else(|| self.ring.len() as u64, |(used, _)| used);
        share * used >= self.ring.capacity() as u64
    }

    /// [`Ring::push_fast`], into a queue that does not weigh its items: where it does, the fast path is never open.
    ///
    /// # Safety
    ///
    /// That of [`Ring::push_fast`], for all produce calls and the close of the queue.
    #[inline(always)]
    pub unsafe fn push_fast(&self, make: impl FnOnce() -> T) -> bool {
        // SAFETY: the caller's.
        unsafe { self.ring.push_fast(make) }
    }

    /// [`Ring::push_fast_while`].
    ///
    /// # Safety
    ///
    /// That of [`Self::push_fast`].
    #[inline(always)]
    pub unsafe fn push_fast_while(&self, next: impl FnMut() -> Option<T>) -> usize {
        // SAFETY: the caller's.
        unsafe { self.ring.push_fast_while(next) }
    }

    /// [`Ring::close_fast_path`].
    #[inline]
    pub fn close_fast_path(&self) {
        self.ring.close_fast_path();
    }
}
