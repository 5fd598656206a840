//! One partition: a ring, the lease on it, and the producers that wait for room.

use super::handoff::{Lease, ThreadId};
use crate::ring::Ring;
use crate::space::Space;
use crate::sync::CachePadded;
use crate::sync::atomic::AtomicU64;
use crate::word::Word;

/// The number of a partition within its queue; it names the same partition for ever.
pub type PartitionId = u32;

/// A buffer that one drain thread at a time empties.
pub struct Partition<T: Word> {
    /// What is queued.
    pub ring: Ring<T>,
    /// Who may take from it.
    pub lease: CachePadded<Lease>,
    /// Who waits for room in it.
    pub space: Space,
    /// Everything accepted up to this index has been through a handler call, or was
    /// accounted for in another way.
    pub completed: AtomicU64,
}

impl<T: Word> Partition<T> {
    /// An empty partition that `owner` drains.
    pub fn new(capacity: usize, owner: ThreadId) -> Self {
        Self {
            ring: Ring::new(capacity),
            lease: CachePadded::new(Lease::new(owner)),
            space: Space::new(),
            completed: AtomicU64::new(0),
        }
    }
}
