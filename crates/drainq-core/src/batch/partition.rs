//! One partition: a ring, the lease on it, and the producers that wait for room.

use super::handoff::{Lease, ThreadId};
use super::rows::Rows;
use crate::ring::Ring;
use crate::space::Space;
use crate::sync::atomic::{AtomicU32, AtomicU64};
use crate::word::Word;

/// The number of a partition within its queue; it names the same partition for ever.
pub type PartitionId = u32;

/// A buffer that one drain thread at a time empties.
pub struct Partition<T: Word> {
    /// What is queued, and beside it the lease: producers read the owner to wake it.
    pub ring: Ring<T, Lease>,
    /// What is queued in weights, if the queue weighs items.
    pub rows: Rows,
    /// Who waits for room in it.
    pub space: Space,
    /// Everything accepted up to this index has been through a handler call, or was
    /// accounted for in another way.
    pub completed: AtomicU64,
    /// Types routed here of which somebody wants to hear when a pass finds nothing.
    pub watched: AtomicU32,
}

impl<T: Word> Partition<T> {
    /// An empty partition that `owner` drains.
    pub fn new(capacity: usize, weighed: bool, owner: ThreadId) -> Self {
        Self {
            ring: Ring::with(capacity, Lease::new(owner)),
            rows: Rows::new(weighed, capacity),
            space: Space::new(),
            completed: AtomicU64::new(0),
            watched: AtomicU32::new(0),
        }
    }

    /// Who may take from it.
    #[inline]
    pub fn lease(&self) -> &Lease {
        self.ring.beside()
    }

    /// Accepted and taken so far: items, or their weight where it counts.
    pub fn counts(&self) -> (u64, u64) {
        let taken = self.ring.taken();
        self.rows.counts().unwrap_or_else(|| (self.ring.accepted(), taken))
    }

    /// Whether it is worth waking a thread from its nap.
    #[inline]
    pub fn is_half_full(&self) -> bool {
        self.holds_one_in(2)
    }

    /// Whether at least the capacity divided by `share` is taken.
    #[inline]
    pub fn holds_one_in(&self, share: u64) -> bool {
        let (accepted, taken) = self.counts();
        share * accepted.saturating_sub(taken) >= self.ring.capacity() as u64
    }
}
