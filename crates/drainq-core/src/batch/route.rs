//! Which partition a type's items go to, and how many of them were handled.
//!
//! # Invariants
//! 1. A key's partition is chosen when the key is made and never changes: growth and moves change the owner of a
//!    partition, not the partition of a type. So the items of a type keep their order, and one thread at a time has
//!    them.
//! 2. The load of a partition is the sum of the weights of the types routed to it.
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

/// The load of each partition, and how many types are routed to it.
#[derive(Default)]
pub(super) struct Loads {
    by_partition: Vec<(f64, u32)>,
}

impl Loads {
    /// Adds partitions without load, up to this number.
    pub fn grow(&mut self, partitions: usize) {
        self.by_partition.resize(partitions.max(self.by_partition.len()), (0.0, 0));
    }

    /// Routes a new type to the partition with the least load, then the fewest types.
    pub fn choose(&mut self, weight: f64) -> PartitionId {
        let (partition, load) = self
            .by_partition
            .iter_mut()
            .enumerate()
            .min_by(|a, b| a.1.0.total_cmp(&b.1.0).then(a.1.1.cmp(&b.1.1)))
            .expect("a queue has a partition");
        load.0 += weight;
        load.1 += 1;
        partition as PartitionId
    }

    /// Changes the weight of a type that is routed to `partition`.
    pub fn add_weight(&mut self, partition: PartitionId, change: f64) {
        self.by_partition[partition as usize].0 += change;
    }
}
