//! The used part of a capacity: a sum that stays within a limit.
//!
//! # Invariants
//! 1. `used` is at most the limit, with one exception: a single amount above the limit is admitted while nothing is
//!    used, because it would never fit otherwise.
//! 2. An item's amount is added before the item is pushed, and given back if the push fails. So a drain thread never
//!    gives back more than was added, and `used` is never negative. It is one word, changed only by read-modify-writes:
//!    no decision compares two counters of different ages.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::planted;

/// The used part of a capacity.
pub(crate) struct UsedCapacity {
    limit: u64,
    used: AtomicU64,
}

impl UsedCapacity {
    /// Makes a capacity of which nothing is used.
    pub fn new(limit: usize) -> Self {
        Self { limit: limit as u64, used: AtomicU64::new(0) }
    }

    /// Returns the used amount.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    /// Returns the most that may be used.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Adds an amount if it fits (invariant 1); returns whether it did.
    pub fn admit(&self, amount: u64) -> bool {
        let fits = |used: u64| self.fits(used, amount);
        if planted("weights_check_then_add") {
            let fits = fits(self.used());
            self.used.fetch_add(if fits { amount } else { 0 }, Ordering::AcqRel);
            return fits;
        }
        let add = |used: u64| fits(used).then_some(used + amount);
        self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).is_ok()
    }

    /// Adds the part of an amount that fits; returns this part.
    pub fn admit_up_to(&self, amount: u64) -> u64 {
        let room = |used: u64| self.limit.saturating_sub(used).min(amount);
        let add = |used: u64| (room(used) > 0).then(|| used + room(used));
        self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).map_or(0, room)
    }

    /// Whether an amount would fit if `used` were used.
    pub fn fits(&self, used: u64, amount: u64) -> bool {
        (used == 0 && !planted("weights_too_heavy")) || used + amount <= self.limit
    }

    /// Subtracts an amount that was added.
    pub fn give_back(&self, amount: u64) {
        self.used.fetch_sub(amount, Ordering::AcqRel);
    }

    /// Whether at least the limit divided by `share` is used.
    pub fn holds_one_in(&self, share: u64) -> bool {
        share * self.used() >= self.limit
    }
}
