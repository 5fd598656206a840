//! Snapshots in which every item is in exactly one place.

use super::drain_worker::WorkerCounts;
use super::item::{Key, Keyed, ThreadId, weight_of};
use super::outcome_counters::{Outcome, OutcomeCounts};
use super::queue::BatchQueue;
use super::rejection::Rejection;
use super::type_route::TypeCounts;
use crate::ring::RingItem;
use crate::sync::atomic::Ordering;

/// The counters of a queue at one moment, in items.
///
/// `accepted = the sum of all outcomes + abandoned + queued` in every snapshot, also of a busy queue.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The capacity of one partition, in items.
    pub buffer_size: usize,
    /// The capacity of all partitions together, in items, if the queue has one.
    pub capacity: Option<usize>,
    /// Items in each partition's ring.
    pub used: Vec<usize>,
    /// Owner of each partition.
    pub owners: Vec<ThreadId>,
    /// Items accepted.
    pub accepted: u64,
    /// Items rejected, in the order of [`Rejection::ALL`].
    pub rejected: [u64; Rejection::ALL.len()],
    /// Items accepted whose handler call has not returned.
    pub queued: u64,
    /// Items that the queue gave up on.
    pub abandoned: u64,
    /// The counters of each drain thread.
    pub workers: Vec<WorkerCounts>,
    /// The counters of each type, by key.
    pub types: Vec<TypeCounts>,
    /// Plans of the balancer that were carried out.
    pub rebalances: u64,
    /// Bytes that the rings hold.
    pub allocated_bytes: usize,
}

impl Snapshot {
    /// Returns the number of items that fit into all partitions together.
    pub fn total_capacity(&self) -> usize {
        let all = self.used.len() * self.buffer_size;
        self.capacity.map_or(all, |capacity| capacity.min(all))
    }

    /// Sums the items of each outcome over the workers.
    pub fn outcomes(&self) -> OutcomeCounts {
        let mut sum = OutcomeCounts::default();
        for (worker, outcome) in self.workers.iter().flat_map(|worker| Outcome::ALL.map(|outcome| (worker, outcome))) {
            sum.add(outcome, worker.outcomes.of(outcome));
        }
        sum
    }

    /// Sums one counter over the workers.
    pub fn total(&self, counter: impl Fn(&WorkerCounts) -> u64) -> u64 {
        self.workers.iter().map(counter).sum()
    }
}

impl<T: RingItem + Keyed> BatchQueue<T> {
    /// Whether everything accepted was accounted for.
    pub fn is_quiet(&self) -> bool {
        let workers: Vec<_> = self.workers.iter().map(|worker| worker.counts.lock()).collect();
        workers.iter().all(|counts| !counts.in_pass) && self.layout.partitions().iter().all(|at| at.ring.is_empty())
    }

    /// Reads all counters at one moment.
    pub fn snapshot(&self) -> Snapshot {
        // With all counts locks held nothing is taken and no outcome is counted.
        let workers: Vec<_> = self.workers.iter().map(|worker| worker.counts.lock()).collect();
        let (mut accepted, mut queued) = (0, 0);
        let (mut used, mut owners, mut allocated_bytes) = (Vec::new(), Vec::new(), 0);
        let mut queued_by_key = Vec::new();
        for at in self.layout.partitions().iter() {
            let mut here = 0;
            let mut count = |item: &T| {
                let weight = weight_of(item, self.settings.weighed);
                add(&mut queued_by_key, item.key(), weight);
                here += weight;
            };
            // SAFETY: items are taken only under a worker's counts lock, and this thread holds the locks of all
            // workers. After a cut the rings are empty and closed.
            unsafe { at.ring.for_each(at.ring.accepted(), &mut count) };
            // Counts the items in the ring, not the admitted ones: the ring may still refuse an admitted item.
            accepted += at.taken() + here;
            queued += here;
            used.push(here as usize);
            owners.push(at.ownership().owner());
            allocated_bytes += at.ring.allocated_bytes();
        }
        queued_by_key.resize(self.layout.routes().len(), 0);
        let types =
            self.layout.routes().iter().zip(queued_by_key).map(|(route, queued)| route.counts(queued)).collect();
        let workers: Vec<WorkerCounts> = workers.iter().map(|counts| **counts).collect();
        Snapshot {
            buffer_size: self.settings.buffer_size,
            capacity: self.settings.capacity,
            used,
            owners,
            accepted,
            rejected: Rejection::ALL.map(|reason| self.rejected(reason)),
            queued: queued + workers.iter().map(|counts| counts.in_flight).sum::<u64>(),
            abandoned: self.abandoned.load(Ordering::Relaxed),
            workers,
            types,
            rebalances: self.rebalances.load(Ordering::Relaxed),
            allocated_bytes,
        }
    }
}

fn add(counts: &mut Vec<u64>, key: Key, count: u64) {
    let index = key as usize;
    if counts.len() <= index {
        counts.resize(index + 1, 0);
    }
    counts[index] += count;
}
