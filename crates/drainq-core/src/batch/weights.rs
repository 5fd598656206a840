//! Capacity in weights, for items that count for many: tables, arrays, frames.
//!
//! A [`UsedCapacity`] holds the used weight: a weight is admitted before its item is pushed, and given back when the
//! item was taken.
//!
//! # Invariants
//! 1. An item weighs [`MAX_WEIGHT`](super::config::MAX_WEIGHT) at most (`weight_of`), so that no sum wraps.

use super::item::{Keyed, weight_of};
use super::used_capacity::UsedCapacity;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::planted;

/// The weights of one partition; `None` in a queue that does not weigh items.
pub(crate) struct Weights(Option<Sums>);

struct Sums {
    bound: UsedCapacity,
    /// Weight taken since the partition was made; changed under a worker's counts lock.
    taken: AtomicU64,
}

impl Weights {
    /// Makes the weights of a partition with this capacity, if its queue weighs items.
    pub(crate) fn new(weighed: bool, capacity: usize) -> Self {
        Self(weighed.then(|| Sums { bound: UsedCapacity::new(capacity), taken: AtomicU64::new(0) }))
    }

    /// Adds an item's weight, if there is room for it.
    pub(crate) fn admit(&self, weight: u64) -> bool {
        let Some(sums) = &self.0 else { return true };
        if planted("weights_two_counters") {
            let accepted = sums.bound.used() + sums.taken.load(Ordering::Acquire);
            let fits = sums.bound.fits(accepted - sums.taken.load(Ordering::Acquire), weight);
            return fits && sums.bound.admit(weight);
        }
        sums.bound.admit(weight)
    }

    /// Subtracts the weight of an item whose push failed.
    pub(crate) fn take_back(&self, weight: u64) {
        if let Some(sums) = self.0.as_ref().filter(|_| !planted("weights_take_back")) {
            sums.bound.give_back(weight);
        }
    }

    /// Moves the weight of items just taken out of the ring from `used` to `taken`; returns the weight.
    pub(crate) fn took(&self, items: &[impl Keyed]) -> u64 {
        let Some(sums) = &self.0 else { return items.len() as u64 };
        let weight = items.iter().map(|item| weight_of(item, true)).sum();
        sums.taken.fetch_add(weight, Ordering::AcqRel);
        if !planted("weights_took") {
            sums.bound.give_back(weight);
        }
        weight
    }

    /// Returns the used and the taken weight, in a queue that weighs items.
    pub(crate) fn used_and_taken(&self) -> Option<(u64, u64)> {
        let sums = self.0.as_ref()?;
        Some((sums.bound.used(), sums.taken.load(Ordering::Acquire)))
    }
}
