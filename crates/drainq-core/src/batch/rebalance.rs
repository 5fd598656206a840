//! Carries out a balancer's plans: measures what each partition accepted, and moves partitions between threads.

use super::drain_balancer::Balancer;
use super::item::{Keyed, ThreadId};
use super::partition::Partition;
use super::partition_handoff::Move;
use super::queue::BatchQueue;
use crate::ring::RingItem;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, full_fence, planted};

/// Moves partitions of one queue between its threads as its balancer plans.
pub struct Rebalancer<T: RingItem + Keyed> {
    queue: Arc<BatchQueue<T>>,
    /// The items accepted by each partition up to the last [`Self::measure`].
    last: Vec<u64>,
}

/// The input of a balancer.
pub struct Throughput {
    /// The items, or their weight, accepted by each partition since the last measurement.
    pub by_partition: Vec<u64>,
    /// The thread that owns each partition, or is about to.
    pub owners: Vec<ThreadId>,
    /// The number of threads.
    pub threads: usize,
}

impl<T: RingItem + Keyed> Rebalancer<T> {
    /// Makes a rebalancer whose first measurement counts from now.
    pub fn new(queue: Arc<BatchQueue<T>>) -> Self {
        let last = queue.layout.partitions().iter().map(Partition::accepted).collect();
        Self { queue, last }
    }

    /// Returns the queue.
    pub fn queue(&self) -> &Arc<BatchQueue<T>> {
        &self.queue
    }

    /// Measures the throughput since the last call.
    pub fn measure(&mut self) -> Throughput {
        let now: Vec<u64> = self.queue.layout.partitions().iter().map(Partition::accepted).collect();
        let before = self.last.iter().copied().chain(std::iter::repeat(0));
        // In a queue that weighs items the accepted weight is the sum of two words, and may shrink for a moment.
        let by_partition = now.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect();
        let owners = self.queue.layout.partitions().iter().take(now.len()).map(|at| at.ownership().target()).collect();
        self.last = now;
        Throughput { by_partition, owners, threads: self.queue.thread_count() }
    }

    /// Gives each partition to the thread that the plan names; returns the number of moves.
    ///
    /// This call does not wait: a partition in the middle of a pass is moved when the pass ends.
    ///
    /// # Panics
    ///
    /// If the plan names a thread that the queue does not have.
    pub fn carry_out(&self, plan: &[ThreadId]) -> usize {
        let threads = self.queue.thread_count();
        if let Some(unknown) = plan.iter().find(|new| usize::from(**new) >= threads) {
            panic!("a plan names thread {unknown}, and queue {:?} has {threads}", self.queue.name());
        }
        let mut moves = 0;
        self.queue.layout.while_open(|| {
            for (at, new) in self.queue.layout.partitions().iter().zip(plan) {
                match at.ownership().revoke(*new) {
                    Move::Unneeded => continue,
                    Move::Pending => {}
                    Move::Done => self.queue.wake_new_owner(*new),
                }
                moves += 1;
            }
        });
        if moves > 0 {
            self.queue.rebalances.fetch_add(1, Ordering::Relaxed);
        }
        moves
    }

    /// Measures, asks the balancer for a plan and carries it out; returns the number of moves, 0 without a plan.
    pub fn run(&mut self, balancer: &dyn Balancer) -> usize {
        let Throughput { by_partition, owners, threads } = self.measure();
        balancer.assign(&by_partition, &owners, threads).map_or(0, |plan| self.carry_out(&plan))
    }
}

impl<T: RingItem + Keyed> BatchQueue<T> {
    /// Bumps the epoch and wakes the new owner of a partition if it sleeps.
    pub(super) fn wake_new_owner(&self, new: ThreadId) {
        self.layout.bump_epoch();
        full_fence("move_fence");
        if !planted("move_wake") {
            self.workers[usize::from(new)].sleeper.wake(|| true);
        }
    }
}
