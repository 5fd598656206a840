//! The second half of a pass: hands out the items batch by batch, counts each batch by outcome after its handler call,
//! and ends the pass.
//!
//! # Invariants
//! 1. A pass ends with every item that it took accounted for exactly once. If the code that runs the pass panics, or
//!    drops or forgets a batch without accounting for it, the items of the batch are counted as abandoned.
//! 2. Items that a cut has counted as abandoned are not counted again.

use super::drain_group::Batch;
use super::drain_take::Drainer;
use super::item::Keyed;
use super::outcome_counters::Outcome;
use crate::ring::RingItem;
use crate::sync::atomic::Ordering;
use crate::sync::{order, planted};

/// The part of an ended pass that was accounted for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Accounted {
    /// All of it, by the pass.
    All,
    /// Part of it: a cut of the queue counted the rest as abandoned.
    UpToTheCut,
}

/// The items of one pass, which the caller hands out. Dropping this value ends the pass.
pub struct Pass<'a, T: RingItem + Keyed> {
    pub(super) drainer: &'a mut Drainer<T>,
}

impl<T: RingItem + Keyed> Pass<'_, T> {
    /// Returns the drainer of this pass.
    pub fn drainer(&self) -> &Drainer<T> {
        self.drainer
    }

    /// Returns the next batch; none when all were handed out.
    pub fn next_batch(&mut self) -> Option<Batch<T>> {
        self.drainer.groups.next()
    }

    /// Accounts for a batch after its handler call. `outcomes` has the number of items of each outcome.
    ///
    /// Returns false if a cut has counted the batch as abandoned. The rest of the pass must then not be handed out.
    ///
    /// # Panics
    ///
    /// If the sum of `outcomes` is not the size of the batch, or if the batch is from another pass and larger than the
    /// rest of this one.
    pub fn account(&mut self, batch: Batch<T>, outcomes: &[(Outcome, u64)]) -> bool {
        assert_eq!(outcomes.iter().map(|outcome| outcome.1).sum::<u64>(), batch.size, "all items of a batch");
        let worker = self.drainer.worker();
        let mut counts = worker.counts.lock();
        if counts.cut && !planted("cut_account") {
            return false;
        }
        assert!(batch.size <= counts.in_flight, "a batch of {} items, {} left", batch.size, counts.in_flight);
        counts.in_flight -= batch.size;
        for (outcome, count) in outcomes {
            counts.outcomes.add(*outcome, *count);
        }
        for (key, count) in &batch.tally {
            self.drainer.queue.route(*key).count(outcomes[0].0, *count);
        }
        drop(counts);
        self.drainer.groups.reuse(batch);
        true
    }
}

impl<T: RingItem + Keyed> Drop for Pass<'_, T> {
    fn drop(&mut self) {
        self.drainer.end_pass();
    }
}

impl<T: RingItem + Keyed> Drainer<T> {
    /// Ends the pass: counts unaccounted items as abandoned, and releases the partitions.
    pub(super) fn end_pass(&mut self) {
        self.in_pass = false;
        let left = self.groups.end();
        let accounted = {
            let mut counts = self.worker().counts.lock();
            if !counts.cut {
                if !planted("pass_dropped") {
                    self.queue.abandoned.fetch_add(counts.in_flight, Ordering::Relaxed);
                }
                counts.in_flight = 0;
            }
            counts.in_pass = false;
            counts.busy_nanos += self.started.elapsed().as_nanos() as u64;
            if counts.cut { Accounted::UpToTheCut } else { Accounted::All }
        };
        drop(left);
        self.release_partitions(accounted);
        if !planted("flush_notify") {
            self.queue.pass_waiters.notify_all();
        }
        if !self.queue.is_running() && !planted("close_wake_peers") {
            // Any thread may now take what this pass left behind; if there is nothing, all threads may end.
            self.queue.wake_all();
        }
    }

    /// Releases the partitions of a pass that found nothing.
    pub(super) fn end_empty_pass(&mut self) {
        self.release_partitions(Accounted::All);
    }

    /// Stores how far each partition is accounted for, ends the pass over it, and wakes the new owner of a partition
    /// that was moved meanwhile.
    fn release_partitions(&mut self, accounted: Accounted) {
        for (id, taken) in self.held.drain(..) {
            let at = self.queue.partition(id);
            let complete = || {
                if accounted == Accounted::All || planted("flush_after_cut") {
                    at.completed.store(taken, order("flush_publish", Ordering::Release));
                }
            };
            if planted("flush_mark_late") {
                let new = at.ownership().end();
                complete();
                new.into_iter().for_each(|new| self.queue.wake_new_owner(new));
                continue;
            }
            // The index is stored before the ownership ends: from then on only the next owner stores it.
            complete();
            if let Some(new) = at.ownership().end().filter(|_| !planted("move_at_pass_end")) {
                self.queue.wake_new_owner(new);
            }
        }
    }
}
