//! The end of a queue: waits for its drain threads, or abandons their items.
//!
//! The order of a shutdown: close (no item is accepted any more, waiting producers are released), drain (threads empty
//! all partitions, each handler on one thread at a time), end. If the deadline passes first, the queue is *cut*: items
//! that are still in a ring or in flight are counted as abandoned, whatever a hanging handler does later.

use super::item::{Key, Keyed, weight_of};
use super::outcome_counters::Outcome;
use super::queue::BatchQueue;
use crate::ring::RingItem;
use crate::sync::atomic::Ordering;
use crate::sync::{Backoff, planted};
use std::time::Duration;

/// The items that a cut abandoned.
pub struct Cut<T> {
    /// Items taken out of the rings, which the caller puts into a durable queue, or drops.
    pub items: Vec<T>,
    /// The number of abandoned items, those in flight included; their weight in a queue that weighs items.
    pub abandoned: u64,
}

impl<T: RingItem + Keyed> BatchQueue<T> {
    /// Refuses every item from now on; returns whether this call was the first to do so.
    ///
    /// An item that was accepted before the close will be accounted for. Every later item is refused.
    pub fn close(&self) -> bool {
        let first = self.layout.close(|| self.closing.store(true, Ordering::Release));
        for partition in self.layout.partitions().iter() {
            if !planted("close_notify_producers") {
                partition.room_waiters.notify_all();
            }
        }
        self.capacity.iter().for_each(|capacity| capacity.room_waiters.notify_all());
        if !planted("close_wait_open") {
            self.close_waiters.notify_all();
        }
        if !planted("close_wake_threads") {
            self.wake_all();
        }
        first
    }

    /// Whether the queue is closed and everything that was accepted is accounted for.
    pub fn is_drained(&self) -> bool {
        !self.is_running()
            && self.layout.partitions().iter().all(|at| at.ring.is_closed() && at.ring.is_empty())
            && (planted("drained_in_flight") || !self.workers.iter().any(|worker| worker.counts.lock().in_pass))
    }

    /// Waits up to `timeout` for the end of a pass, unless the queue is drained. Returns [`Self::is_drained`].
    pub fn wait_drained(&self, timeout: Duration) -> bool {
        if self.is_drained() {
            return true;
        }
        let mut waiter = self.pass_waiters.enter();
        if !self.is_drained() {
            waiter.wait(timeout);
        }
        self.is_drained()
    }

    /// Whether [`Self::cut`] was called.
    pub fn is_cut(&self) -> bool {
        self.workers.iter().any(|worker| worker.counts.lock().cut)
    }

    /// Closes the queue and abandons everything that is not handled yet.
    pub fn cut(&self) -> Cut<T> {
        self.close();
        let mut workers: Vec<_> = self.workers.iter().map(|worker| worker.counts.lock()).collect();
        let (mut items, mut taken, mut abandoned) = (Vec::new(), Vec::new(), 0);
        for at in self.layout.partitions().iter() {
            let backoff = Backoff::new();
            loop {
                // SAFETY: items are taken only under a worker's counts lock, and this thread holds the locks of all
                // workers.
                unsafe { at.ring.take(usize::MAX >> 2, &mut taken) };
                if at.ring.is_empty() || planted("cut_unpublished") {
                    break;
                }
                // A producer claimed its slot before the close and is about to publish its item.
                backoff.snooze();
            }
            abandoned += at.weights.took(&taken);
            taken.iter().for_each(|item| self.route(item.key()).count_taken(weight_of(item, self.settings.weighed)));
            items.append(&mut taken);
        }
        // A pass that is not over may hold items without weight, which no counter shows.
        let weightless = self.settings.weighed && (!items.is_empty() || workers.iter().any(|counts| counts.in_pass));
        for counts in &mut workers {
            abandoned += std::mem::take(&mut counts.in_flight);
            counts.in_pass = false;
            counts.cut = !planted("cut_mark");
        }
        self.abandoned.fetch_add(abandoned, Ordering::Relaxed);
        if abandoned > 0 || weightless {
            self.gave_up.store(true, Ordering::Relaxed);
        }
        drop(workers);
        self.wake_all();
        if !planted("cut_notify") {
            self.pass_waiters.notify_all();
        }
        Cut { items, abandoned }
    }

    /// Counts items of a cut as put into a durable queue, and no longer as abandoned.
    pub fn keep_abandoned(&self, key: Key, count: u64) {
        self.workers[0].counts.lock().outcomes.add(Outcome::DeadLettered, count);
        self.route(key).count(Outcome::DeadLettered, count);
        self.abandoned.fetch_sub(count, Ordering::Relaxed);
    }
}
