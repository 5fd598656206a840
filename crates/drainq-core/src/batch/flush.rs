//! A flush waits until everything that was accepted before it has been handled.
//!
//! It stores, for each partition, the index after the last accepted item, and ends when the passes that took the items
//! below these indices have ended. It does not wait for items that come later.

use super::item::{Key, Keyed};
use super::queue::BatchQueue;
use crate::ring::RingItem;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, order, planted};
use crate::wait::sleeper::producer_fence;
use std::time::Duration;

/// The state of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// Everything went through a handler call, or was counted as failed or unrouted.
    All,
    /// The queue was cut and has abandoned items.
    GivenUp,
    /// Items are still queued or in a handler call.
    NotYet,
}

/// A wait for the items that had been accepted when the flush began. While it lives no thread lets items gather.
pub struct Flush<T: RingItem + Keyed> {
    queue: Arc<BatchQueue<T>>,
    /// Partitions, each with the ring index up to which the flush waits.
    goals: Vec<(u32, u64)>,
}

impl<T: RingItem + Keyed> Flush<T> {
    /// Makes a flush of everything accepted by now, in all partitions.
    pub fn of_queue(queue: &Arc<BatchQueue<T>>) -> Self {
        Self::of(queue, (0..).zip(queue.layout.partitions().iter()).map(|(id, at)| (id, at.ring.accepted())).collect())
    }

    /// Makes a flush of everything accepted by now in the partitions that may hold items of one type.
    pub fn of_type(queue: &Arc<BatchQueue<T>>, key: Key) -> Self {
        if !queue.settings.sticky {
            return Self::of_queue(queue);
        }
        let id = queue.partition_of(key);
        Self::of(queue, vec![(id, queue.partition(id).ring.accepted())])
    }

    fn of(queue: &Arc<BatchQueue<T>>, goals: Vec<(u32, u64)>) -> Self {
        queue.flushes.fetch_add(1, Ordering::Relaxed);
        Self { queue: queue.clone(), goals }
    }

    /// Wakes the threads that let items gather.
    pub fn hurry(&self) {
        producer_fence();
        for worker in &self.queue.workers {
            worker.sleeper.wake(|| !planted("flush_wake"));
        }
    }

    fn is_done(&mut self) -> bool {
        let queue = &self.queue;
        self.goals
            .retain(|(id, goal)| queue.partition(*id).completed.load(order("flush_read", Ordering::Acquire)) < *goal);
        self.goals.is_empty()
    }

    /// Waits up to `timeout` for the end of a pass, unless the flush is done. Returns the state after that.
    pub fn wait(&mut self, timeout: Duration) -> Flushed {
        let before = self.state();
        if before != Flushed::NotYet {
            return before;
        }
        self.hurry();
        let queue = self.queue.clone();
        let mut waiter = queue.pass_waiters.enter();
        if self.state() == Flushed::NotYet {
            waiter.wait(timeout);
        }
        self.state()
    }

    /// Returns the state now, without waiting. Once it is not [`Flushed::NotYet`], only a later cut changes the state.
    pub fn state(&mut self) -> Flushed {
        if !self.queue.is_cut() {
            return if self.is_done() { Flushed::All } else { Flushed::NotYet };
        }
        if self.queue.gave_up.load(Ordering::Relaxed) { Flushed::GivenUp } else { Flushed::All }
    }
}

impl<T: RingItem + Keyed> Drop for Flush<T> {
    fn drop(&mut self) {
        self.queue.flushes.fetch_sub(1, Ordering::Relaxed);
    }
}
