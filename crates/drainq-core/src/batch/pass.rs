//! What one pass took: handed out batch by batch, each accounted for when its handler call is over.
//!
//! # Invariants
//! 1. A pass ends with every item that it took accounted for exactly once: what its user did not account
//!    for, whether dropped, forgotten or left behind by a panic, is abandoned.
//! 2. What a cut has counted as abandoned is not counted again.

use super::drain::Drainer;
use super::group::Batch;
use super::item::Keyed;
use super::route::Outcome;
use crate::ring::RingItem;
use crate::sync::planted;

/// What one pass took, to be handed out. Dropped, it ends the pass.
pub struct Pass<'a, T: RingItem + Keyed> {
    pub(super) drainer: &'a mut Drainer<T>,
}

impl<T: RingItem + Keyed> Pass<'_, T> {
    /// The drainer, to ask about other types.
    pub fn drainer(&self) -> &Drainer<T> {
        self.drainer
    }

    /// The next batch, until there is none.
    pub fn next_batch(&mut self) -> Option<Batch<T>> {
        self.drainer.groups.next()
    }

    /// Accounts for a batch whose handler call is over: what became of how many of its
    /// items, which must be all of them.
    ///
    /// False if the queue gave up waiting for this call and counted the batch as abandoned
    /// before it was over: then the rest of the pass must not be handed out either.
    ///
    /// # Panics
    ///
    /// If `outcomes` is not for as many items as the batch has, or the batch not from this pass and
    /// larger than what is left of it.
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
            match outcome {
                Outcome::Handled => counts.handled += count,
                Outcome::Failed => counts.failed += count,
                Outcome::DeadLettered => counts.dead_lettered += count,
                Outcome::Unrouted => counts.unrouted += count,
            }
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
