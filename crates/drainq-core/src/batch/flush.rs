//! Waiting until everything accepted so far was handled.

use super::item::{Key, Keyed};
use super::queue::BatchQueue;
use crate::ring::RingItem;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, order, planted};
use std::time::Duration;

/// What had been accepted when the flush began.
pub struct Flush<T: RingItem + Keyed> {
    queue: Arc<BatchQueue<T>>,
    /// Partition and the index up to which its items are waited for.
    goals: Vec<(u32, u64)>,
}

impl<T: RingItem + Keyed> Flush<T> {
    /// Everything accepted by now, in all partitions.
    pub fn of_queue(queue: &Arc<BatchQueue<T>>) -> Self {
        let goals = (0..).zip(queue.partitions.iter()).map(|(id, at)| (id, at.ring.accepted())).collect();
        Self { queue: queue.clone(), goals }
    }

    /// Everything accepted by now in the partitions that may hold items of one type.
    pub fn of_type(queue: &Arc<BatchQueue<T>>, key: Key) -> Self {
        if !queue.settings.sticky {
            return Self::of_queue(queue);
        }
        let id = queue.partition_of(key);
        Self { queue: queue.clone(), goals: vec![(id, queue.partition(id).ring.accepted())] }
    }

    fn is_done(&mut self) -> bool {
        let queue = &self.queue;
        self.goals
            .retain(|(id, goal)| queue.partition(*id).completed.load(order("flush_read", Ordering::Acquire)) < *goal);
        self.goals.is_empty()
    }

    /// Waits up to `patience`: true once everything went through a handler call or was
    /// counted as failed or unrouted, false once the queue has given up on it, `None` if it
    /// is not known yet.
    pub fn wait(&mut self, patience: Duration) -> Option<bool> {
        if let Some(answer) = self.answer() {
            return Some(answer);
        }
        let queue = self.queue.clone();
        let mut waiter = queue.pass_waiters.enter();
        for worker in &queue.workers {
            worker.sleeper.wake(|| !planted("flush_wake"));
        }
        if self.answer().is_none() {
            waiter.wait(patience);
        }
        self.answer()
    }

    fn answer(&mut self) -> Option<bool> {
        if self.queue.is_cut() {
            return Some(self.queue.abandoned.load(Ordering::Relaxed) == 0);
        }
        self.is_done().then_some(true)
    }
}
