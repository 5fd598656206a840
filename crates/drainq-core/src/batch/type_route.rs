//! The partition of a type's items, and the type's counters.
//!
//! # Invariants
//! 1. A key's partition is chosen when the key is made and never changes: growth and moves change the owner of a
//!    partition, not the partition of a type. So the items of a type keep their order, and one thread at a time has
//!    them.
//!
//! Source: SkyWalking routes by `hash % partitions` at each produce, which splits a type when the number of partitions
//! grows and leaves a third of them empty.

use super::item::PartitionId;
use super::outcome_counters::{Outcome, OutcomeCounts, SharedOutcomeCounts};
use crate::sync::CachePadded;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The route of one type, and its item counters.
pub struct TypeRoute {
    /// The partition of the type's items (invariant 1).
    pub partition: PartitionId,
    /// Counted by drain threads: producers only read a route.
    counts: CachePadded<TypeCounters>,
}

#[derive(Default)]
struct TypeCounters {
    taken: AtomicU64,
    outcomes: SharedOutcomeCounts,
}

/// The counters of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeCounts {
    /// Items accepted: those still in the ring, and those taken out of it.
    pub accepted: u64,
    /// The outcomes of the items that were taken. A batch that was dead-lettered in part is counted under one outcome.
    pub outcomes: OutcomeCounts,
}

impl TypeRoute {
    pub(super) fn new(partition: PartitionId) -> Self {
        Self { partition, counts: CachePadded::default() }
    }

    /// Counts items that were taken out of the ring.
    pub(super) fn count_taken(&self, count: u64) {
        self.counts.taken.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn count(&self, outcome: Outcome, count: u64) {
        self.counts.outcomes.add(outcome, count);
    }

    /// Returns the counters of a type that has `queued` items in its ring.
    pub(super) fn counts(&self, queued: u64) -> TypeCounts {
        TypeCounts {
            accepted: queued + self.counts.taken.load(Ordering::Relaxed),
            outcomes: self.counts.outcomes.read(),
        }
    }
}
