//! Capacity in weights, for items that stand for many: tables, arrays, frames.
//!
//! # Invariants
//! 1. `used` is the weight that was admitted and not taken since. It is at most the capacity, with one exception: a
//!    single item that is heavier than the capacity is admitted into an empty partition, because it would never fit
//!    otherwise.
//! 2. An item's weight is added before the item is pushed, and taken back if the push fails; so a drain thread never
//!    takes a weight that was not added, and `used` is never negative. It is one word, changed by read-modify-writes
//!    alone: no decision compares two counters of different ages.
//! 3. An item weighs [`MAX_WEIGHT`](super::config::MAX_WEIGHT) at most (`weight_of`), so that no sum wraps.

use super::item::{Keyed, weight_of};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::planted;

/// The weights of one partition; `None` in a queue where each item counts for one.
pub(crate) struct Weights(Option<Sums>);

struct Sums {
    capacity: u64,
    used: AtomicU64,
    /// Weight taken away since the partition was made; changed under a worker's counts lock.
    taken: AtomicU64,
}

impl Weights {
    /// Makes the weights of a partition with this capacity, if its queue weighs items.
    pub(crate) fn new(weighed: bool, capacity: usize) -> Self {
        Self(weighed.then(|| Sums { capacity: capacity as u64, used: AtomicU64::new(0), taken: AtomicU64::new(0) }))
    }

    /// Adds an item's weight, if there is room for it.
    pub(crate) fn admit(&self, weight: u64) -> bool {
        let Some(sums) = &self.0 else { return true };
        let is_first = |used: u64| used == 0 && !planted("weights_too_heavy");
        let fits = |used: u64| is_first(used) || used + weight <= sums.capacity;
        if planted("weights_two_counters") {
            let accepted = sums.used.load(Ordering::Acquire) + sums.taken.load(Ordering::Acquire);
            let fits = fits(accepted - sums.taken.load(Ordering::Acquire));
            sums.used.fetch_add(if fits { weight } else { 0 }, Ordering::AcqRel);
            return fits;
        }
        if planted("weights_check_then_add") {
            let fits = fits(sums.used.load(Ordering::Acquire));
            sums.used.fetch_add(if fits { weight } else { 0 }, Ordering::AcqRel);
            return fits;
        }
        let add = |used: u64| fits(used).then_some(used + weight);
        sums.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).is_ok()
    }

    /// Subtracts the weight of an item whose push failed.
    pub(crate) fn take_back(&self, weight: u64) {
        if let Some(sums) = self.0.as_ref().filter(|_| !planted("weights_take_back")) {
            sums.used.fetch_sub(weight, Ordering::AcqRel);
        }
    }

    /// Moves the weight of items that were just taken from used to taken, which makes room for as much; returns it.
    pub(crate) fn took(&self, items: &[impl Keyed]) -> u64 {
        let Some(sums) = &self.0 else { return items.len() as u64 };
        let weight = items.iter().map(|item| weight_of(item, true)).sum();
        sums.taken.fetch_add(weight, Ordering::AcqRel);
        if !planted("weights_took") {
            sums.used.fetch_sub(weight, Ordering::AcqRel);
        }
        weight
    }

    /// Returns the used and the taken weight, in a queue that weighs items.
    pub(crate) fn used_and_taken(&self) -> Option<(u64, u64)> {
        let sums = self.0.as_ref()?;
        Some((sums.used.load(Ordering::Acquire), sums.taken.load(Ordering::Acquire)))
    }
}
