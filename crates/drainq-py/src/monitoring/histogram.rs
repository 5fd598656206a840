//! Counts of values by upper bound: handlers' threads add, the endpoint reads, without a lock.

use super::sample::SampleValue;
use crate::objects::add;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most bounds that a histogram has.
const MOST_BOUNDS: usize = 12;

/// Counts of whole values, `unit` of which are shown as 1.
pub struct Histogram {
    bounds: &'static [u64],
    unit: f64,
    /// The number of values up to each bound and above the bound before. The last count is of values above all bounds.
    counts: [AtomicU64; MOST_BOUNDS + 1],
    sum: AtomicU64,
}

impl Histogram {
    /// Makes a histogram without values. `bounds` are ascending, and there are at most [`MOST_BOUNDS`].
    pub fn new(bounds: &'static [u64], unit: f64) -> Self {
        debug_assert!(bounds.len() <= MOST_BOUNDS && bounds.is_sorted());
        Self { bounds, unit, counts: Default::default(), sum: AtomicU64::new(0) }
    }

    /// Counts a value.
    pub fn add(&self, py: Python<'_>, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        add(py, &self.counts[bucket], 1);
        add(py, &self.sum, value);
    }

    /// Returns the current counts.
    pub fn read(&self) -> SampleValue {
        let mut count = 0;
        let mut below = |bucket: usize| {
            count += self.counts[bucket].load(Ordering::Relaxed);
            count
        };
        let up_to = self.bounds.iter().enumerate().map(|(n, bound)| (*bound as f64 / self.unit, below(n))).collect();
        let count = below(self.bounds.len());
        SampleValue::Buckets { up_to, sum: self.sum.load(Ordering::Relaxed) as f64 / self.unit, count }
    }
}
