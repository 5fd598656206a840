//! The `gil_yield.rs` of an interpreter without a GIL: there is nothing to yield or to wait for.

use super::types::item::Item;
use drainq_core::batch::BatchQueue;
use drainq_core::batch::partition::Partition;
use pyo3::prelude::*;
use std::time::Instant;

/// The rules by which the producers of one queue yield the GIL to its drain threads: none.
pub struct GilYield;

impl GilYield {
    /// Makes the only value.
    pub fn new() -> Self {
        Self
    }

    /// Returns the time.
    pub fn ask(&self) -> Instant {
        Instant::now()
    }

    /// Returns the time of [`Self::ask`].
    pub fn granted(&self, asked_at: Instant) -> Instant {
        asked_at
    }

    /// Whether a drain thread waits for the GIL: never.
    pub fn is_wanted(&self) -> bool {
        false
    }

    /// Does nothing.
    pub fn yield_if_due(&self, _py: Python<'_>, _queue: &BatchQueue<Item>, _partition: &Partition<Item>) {}

    /// Does nothing.
    pub fn yield_to_drain_thread(&self, _py: Python<'_>) {}

    /// Returns 0.
    pub fn yields(&self) -> u64 {
        0
    }

    /// Returns no waits.
    pub fn waits(&self) -> Vec<(f64, u64)> {
        Vec::new()
    }

    /// Returns 0.
    pub fn waited_seconds(&self) -> f64 {
        0.0
    }
}
