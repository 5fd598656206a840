//! Capacity and counters in weights, for items that stand for many: tables, arrays, frames.
//!
//! # Invariants
//! 1. `accepted - taken <= capacity`, unless a single item is heavier than that: one such item
//!    is let in when nothing else is there, for else it never would be.
//! 2. Weight is added before the item is pushed, and taken back if that fails; so a drain
//!    thread never takes away what was not added.

use super::route::Keyed;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::planted;

/// The weights of one partition, or nothing where each item counts for one.
pub struct Rows(Option<Weights>);

struct Weights {
    capacity: u64,
    accepted: AtomicU64,
    taken: AtomicU64,
}

impl Rows {
    /// The weights of a partition with this capacity, if its queue weighs items.
    pub(super) fn new(weighed: bool, capacity: usize) -> Self {
        Self(weighed.then(|| Weights {
            capacity: capacity as u64,
            accepted: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        }))
    }

    /// Adds an item's weight, if there is room for it.
    pub(super) fn admit(&self, weight: u64) -> bool {
        let Some(weights) = &self.0 else { return true };
        if planted("rows_check_then_add") {
            let used = weights.accepted.load(Ordering::Acquire) - weights.taken.load(Ordering::Acquire);
            let fits = used == 0 || used + weight <= weights.capacity;
            weights.accepted.fetch_add(if fits { weight } else { 0 }, Ordering::AcqRel);
            return fits;
        }
        let fits = |accepted: u64| {
            let used = accepted - weights.taken.load(Ordering::Acquire);
            (used == 0 || used + weight <= weights.capacity).then_some(accepted + weight)
        };
        weights.accepted.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).is_ok()
    }

    /// Takes the weight of an item back that was not pushed after all.
    pub(super) fn revoke(&self, weight: u64) {
        if let Some(weights) = &self.0 {
            weights.accepted.fetch_sub(weight, Ordering::AcqRel);
        }
    }

    /// The weight of items that were just taken, which makes room for as much.
    pub(super) fn took(&self, items: &[impl Keyed]) -> u64 {
        let Some(weights) = &self.0 else { return items.len() as u64 };
        let weight = items.iter().map(Keyed::weight).sum();
        weights.taken.fetch_add(weight, Ordering::AcqRel);
        weight
    }

    /// Accepted and taken so far, where items are weighed.
    pub(super) fn counts(&self) -> Option<(u64, u64)> {
        let weights = self.0.as_ref()?;
        let taken = weights.taken.load(Ordering::Acquire);
        Some((weights.accepted.load(Ordering::Acquire), taken))
    }
}
