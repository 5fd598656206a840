//! Carrying out a balancer's plan: what each partition took in, and who gets it next.

use super::balance::Balancer;
use super::handoff::Move;
use super::item::{Keyed, ThreadId};
use super::partition::Partition;
use super::queue::BatchQueue;
use crate::ring::RingItem;
use crate::sync::Arc;
use crate::sync::atomic::Ordering;

/// Looks at a queue now and then and spreads its load.
pub struct Rebalancer<T: RingItem + Keyed> {
    queue: Arc<BatchQueue<T>>,
    /// What each partition had accepted at the last look.
    last: Vec<u64>,
}

/// What a balancer is shown.
pub struct Load {
    /// Items that each partition took in since the last look.
    pub throughput: Vec<u64>,
    /// The thread that owns each partition, or is about to.
    pub owners: Vec<ThreadId>,
    /// The number of threads.
    pub threads: usize,
}

impl<T: RingItem + Keyed> Rebalancer<T> {
    /// A rebalancer whose first look counts from now.
    pub fn new(queue: Arc<BatchQueue<T>>) -> Self {
        let last = queue.partitions.iter().map(Partition::came_in).collect();
        Self { queue, last }
    }

    /// The queue.
    pub fn queue(&self) -> &Arc<BatchQueue<T>> {
        &self.queue
    }

    /// What happened since the last call.
    pub fn look(&mut self) -> Load {
        let now: Vec<u64> = self.queue.partitions.iter().map(Partition::came_in).collect();
        let before = self.last.iter().copied().chain(std::iter::repeat(0));
        // Where items are weighed, what came in is two words, and may be less than it was for a moment.
        let throughput = now.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect();
        let owners = self.queue.partitions.iter().take(now.len()).map(|at| at.ownership().target()).collect();
        self.last = now;
        Load { throughput, owners, threads: self.queue.thread_count() }
    }

    /// Gives each partition to the thread that the plan names; returns the number of moves.
    ///
    /// Nothing waits: a partition in the middle of a pass changes hands when it ends.
    ///
    /// # Panics
    ///
    /// If the plan names a thread that the queue does not have.
    pub fn carry_out(&self, plan: &[ThreadId]) -> usize {
        let threads = self.queue.thread_count();
        if let Some(nobody) = plan.iter().find(|new| usize::from(**new) >= threads) {
            panic!("a plan names thread {nobody}, and queue {:?} has {threads}", self.queue.name());
        }
        let mut moves = 0;
        self.queue.while_open(|| {
            for (at, new) in self.queue.partitions.iter().zip(plan) {
                match at.ownership().revoke(*new) {
                    Move::Unneeded => continue,
                    Move::Pending => {}
                    Move::Done => self.queue.tell_new_owner(*new),
                }
                moves += 1;
            }
        });
        if moves > 0 {
            self.queue.rebalances.fetch_add(1, Ordering::Relaxed);
        }
        moves
    }

    /// One look and, if the balancer wants it, one plan carried out; returns the moves.
    pub fn run(&mut self, balancer: &dyn Balancer) -> usize {
        let Load { throughput, owners, threads } = self.look();
        balancer.assign(&throughput, &owners, threads).map_or(0, |plan| self.carry_out(&plan))
    }
}
