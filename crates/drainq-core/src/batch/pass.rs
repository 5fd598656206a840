//! What one pass took: handed out batch by batch, each accounted for when its handler call is over.
//!
//! # Invariants
//! 1. A pass ends with every item that it took accounted for exactly once. Items that the user of a pass did not
//!    account for (dropped, forgotten or left by a panic) are counted as abandoned.
//! 2. Items that a cut has counted as abandoned are not counted again.

use super::drain::Drainer;
use super::group::Batch;
use super::item::Keyed;
use super::route::Outcome;
use crate::ring::RingItem;
use crate::sync::planted;

/// The items of one pass, to be handed out. Dropped, it ends the pass.
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

    /// Accounts for a batch whose handler call is over: `outcomes` has the number of its items for each outcome, all
    /// of them.
    ///
    /// Returns false if a cut counted the batch as abandoned before the call was over: then the rest of the pass must
    /// not be handed out either.
    ///
    /// # Panics
    ///
    /// If the sum of `outcomes` is not the size of the batch, or the batch is from another pass and larger than what
    /// is left of this one.
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
