//! Which partition a type's items go to, and how many of them were handled.
//!
//! # Invariants
//! 1. A key's partition is chosen when the key is made and never changes: growth and moves change the owner of a
//!    partition, not the partition of a type. So the items of a type keep their order, and one thread at a time has
//!    them.
//!
//! Source: SkyWalking routes by `hash % partitions` at each produce, which splits a type when the number of partitions
//! grows and leaves a third of them empty.

use super::item::PartitionId;
use crate::sync::CachePadded;
use crate::sync::atomic::{AtomicU64, Ordering};

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its handler returned.
    Handled,
    /// Its handler raised.
    Failed,
    /// Its handler raised, and the batch was put into a durable queue.
    DeadLettered,
    /// There is no handler for its type.
    Unrouted,
}

/// The route of one type and its counters, all in items.
pub struct TypeRoute {
    /// The partition of its items (invariant 1).
    pub partition: PartitionId,
    /// Counted by drain threads: producers only read a route.
    counts: CachePadded<TypeCounters>,
}

#[derive(Default)]
struct TypeCounters {
    taken: AtomicU64,
    handled: AtomicU64,
    failed: AtomicU64,
    unrouted: AtomicU64,
}

/// What happened to the items of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeCounts {
    /// Items queued.
    pub accepted: u64,
    /// Items whose handler call returned.
    pub handled: u64,
    /// Items whose handler call raised, dead-lettered ones included.
    pub failed: u64,
    /// Items for which there was no handler.
    pub unrouted: u64,
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
        let counter = match outcome {
            Outcome::Handled => &self.counts.handled,
            Outcome::Failed | Outcome::DeadLettered => &self.counts.failed,
            Outcome::Unrouted => &self.counts.unrouted,
        };
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns the counters, for a type of which `queued` items are in its ring.
    pub(super) fn counts(&self, queued: u64) -> TypeCounts {
        TypeCounts {
            accepted: queued + self.counts.taken.load(Ordering::Relaxed),
            handled: self.counts.handled.load(Ordering::Relaxed),
            failed: self.counts.failed.load(Ordering::Relaxed),
            unrouted: self.counts.unrouted.load(Ordering::Relaxed),
        }
    }
}
