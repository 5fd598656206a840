//! DDSketch: quantiles of known relative error, from a sketch that merges.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`mapping`] | maps a magnitude to its bucket and back |
//! | [`store`] | counts by bucket, with a bound on the buckets |
//! | [`bytes`] | a sketch as bytes |
//!
//! # Invariants
//! 1. `count` is the sum of `zeros` and of both stores; `min` and `max` are exact.
//! 2. The value that stands for a bucket is off by at most `relative_accuracy` from each value in the bucket
//!    ([`mapping`], invariant 3), and the buckets are in the order of the values. So the error of
//!    [`DDSketch::quantile`] has the same bound, unless the value of the requested rank was collapsed.
//! 3. Collapsed values are the smallest magnitudes of their sign ([`store`], invariant 1). Their quantiles have too
//!    large a magnitude, without a bound on the error; [`DDSketch::has_collapsed`] returns whether there are any. All
//!    magnitudes above the largest of their sign divided by `base^(max_buckets - 1)` keep the guarantee.
//! 4. Adding and merging in any order give the same counts, `min` and `max`. `sum` is a compensated sum: its last bits
//!    may depend on the order.
//! 5. A call that is refused has changed nothing.
//!
//! Unlike in the paper, the base is a root of two: the largest that is at least as fine as requested. So the buckets
//! are those of OpenTelemetry's exponential histogram, and no logarithm is computed.
//!
//! Source: Masson, Rim, Lee: "DDSketch: a fast and fully-mergeable quantile sketch with relative-error guarantees",
//! VLDB 2019.

pub mod bytes;
pub mod mapping;
pub mod store;
#[cfg(all(test, not(any(loom, drainq_shuttle))))]
mod tests;

use mapping::{MIN_ACCURACY, Mapping};
use std::fmt;
use store::Store;

/// The default relative error of a sketch.
pub const DEFAULT_ACCURACY: f64 = 0.01;
/// Powers of two that the buckets of a sign cover by default, as far as [`LARGEST_MAX_BUCKETS`] allows.
pub const DEFAULT_OCTAVES: u64 = 128;
/// The largest bound on buckets: 8 MB for each sign.
pub const LARGEST_MAX_BUCKETS: u32 = 1 << 20;

/// Why a sketch refused a call, which has changed nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum SketchRefusal {
    /// `relative_accuracy` is out of its range.
    Accuracy(f64),
    /// `max_buckets` is out of its range.
    MaxBuckets(u64),
    /// A value that is not finite.
    Value(f64),
    /// More values than can be counted.
    Count,
    /// A quantile outside of 0 to 1.
    Quantile(f64),
    /// Two sketches of different settings cannot be merged: accuracy and bound of each.
    Settings((f64, u32), (f64, u32)),
    /// A scale that is finer than the sketch's own: both scales.
    Scale(i32, u8),
    /// Bytes that are no sketch.
    Bytes(&'static str),
}

impl fmt::Display for SketchRefusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accuracy(got) => {
                write!(to, "relative_accuracy must be at least {MIN_ACCURACY:?} and below 1, got {got:?}")
            }
            Self::MaxBuckets(got) => write!(to, "max_buckets must be from 1 to {LARGEST_MAX_BUCKETS}, got {got}"),
            Self::Value(got) => write!(to, "a sketch takes finite numbers, got {got}"),
            Self::Count => write!(to, "a sketch counts up to {} values", u64::MAX),
            Self::Quantile(got) => write!(to, "q must be from 0 to 1, got {got:?}"),
            Self::Settings((accuracy, buckets), (others, other_buckets)) => write!(
                to,
                "sketches merge if relative_accuracy and max_buckets are the same, got {accuracy:?} and {others:?}, \
                 {buckets} and {other_buckets}"
            ),
            Self::Scale(got, own) => write!(to, "scale must be from -10 to {own}, the sketch's own, got {got}"),
            Self::Bytes(reason) => write!(to, "these bytes are no sketch: {reason}"),
        }
    }
}

/// Buckets of one sign: `counts[k]` is the count of bucket `offset + k`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buckets {
    /// The lowest bucket that counts anything.
    pub offset: i32,
    /// The counts up to the highest bucket that counts anything; empty if there is none.
    pub counts: Vec<u64>,
}

/// The counts of a sketch as an exponential histogram: bucket `i` counts the magnitudes in `(base^i, base^(i+1)]`,
/// with `base = 2^(2^-scale)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Exponential {
    /// Buckets an octave, as a power of two.
    pub scale: i32,
    /// Values that are 0.
    pub zeros: u64,
    /// Values above 0.
    pub positive: Buckets,
    /// Values below 0.
    pub negative: Buckets,
}

/// The coarsest scale of [`DDSketch::exponential`], as in OpenTelemetry's data model.
pub const COARSEST_SCALE: i32 = -10;

/// A sketch of the distribution of numbers.
#[derive(Clone)]
pub struct DDSketch {
    mapping: &'static Mapping,
    accuracy: f64,
    max_buckets: u32,
    positive: Store,
    /// Most sketches have none.
    negative: Option<Box<Store>>,
    zeros: u64,
    count: u64,
    sum: f64,
    /// The rounding errors of the additions to `sum` so far.
    lost: f64,
    min: f64,
    max: f64,
}

impl Default for DDSketch {
    fn default() -> Self {
        Self::new(DEFAULT_ACCURACY, None).expect("the defaults are valid")
    }
}

impl fmt::Debug for DDSketch {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("DDSketch")
            .field("relative_accuracy", &self.accuracy)
            .field("max_buckets", &self.max_buckets)
            .field("buckets", &self.exponential(self.mapping.scale().into()))
            .field("min", &self.min())
            .field("max", &self.max())
            .finish_non_exhaustive()
    }
}

/// Whether settings, counts, minimum and maximum are the same; sums may differ in their last bits.
impl PartialEq for DDSketch {
    fn eq(&self, other: &Self) -> bool {
        self.settings() == other.settings()
            && (self.count, self.zeros) == (other.count, other.zeros)
            && (self.min, self.max) == (other.min, other.max)
            && self.positive == other.positive
            && match (&self.negative, &other.negative) {
                (Some(own), Some(others)) => own == others,
                (None, None) => true,
                _ => false,
            }
    }
}

impl DDSketch {
    /// Makes an empty sketch.
    ///
    /// `relative_accuracy` is from [`MIN_ACCURACY`] to below 1. `max_buckets`, the bound for each sign, is from 1 to
    /// [`LARGEST_MAX_BUCKETS`]; None covers [`DEFAULT_OCTAVES`] octaves.
    pub fn new(relative_accuracy: f64, max_buckets: Option<u64>) -> Result<Self, SketchRefusal> {
        let scale = mapping::scale_for(relative_accuracy).ok_or(SketchRefusal::Accuracy(relative_accuracy))?;
        let usual = (DEFAULT_OCTAVES << scale).min(LARGEST_MAX_BUCKETS.into());
        let max_buckets = max_buckets.unwrap_or(usual);
        let bound = u32::try_from(max_buckets).ok().filter(|bound| (1..=LARGEST_MAX_BUCKETS).contains(bound));
        Ok(Self {
            mapping: Mapping::of(scale),
            accuracy: relative_accuracy,
            max_buckets: bound.ok_or(SketchRefusal::MaxBuckets(max_buckets))?,
            positive: Store::default(),
            negative: None,
            zeros: 0,
            count: 0,
            sum: 0.0,
            lost: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        })
    }

    /// Makes an empty sketch of the same settings.
    pub fn emptied(&self) -> Self {
        Self::new(self.accuracy, Some(self.max_buckets.into())).expect("the settings are those of a sketch")
    }

    /// Adds a finite number.
    #[inline]
    pub fn add(&mut self, value: f64) -> Result<(), SketchRefusal> {
        self.add_times(value, 1)
    }

    /// Adds a finite number `times` times.
    #[inline]
    pub fn add_times(&mut self, value: f64, times: u64) -> Result<(), SketchRefusal> {
        if !value.is_finite() {
            return Err(SketchRefusal::Value(value));
        }
        self.count = self.count.checked_add(times).ok_or(SketchRefusal::Count)?;
        if times == 0 {
            return Ok(());
        }
        if value > 0.0 {
            self.positive.add(self.mapping.index(value), times, self.max_buckets);
        } else if value < 0.0 {
            let index = self.mapping.index(-value);
            self.negative.get_or_insert_default().add(index, times, self.max_buckets);
        } else {
            self.zeros += times;
        }
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.add_to_sum(value * times as f64);
        Ok(())
    }

    /// Adds to the sum by Neumaier's algorithm, which collects the rounding error of each addition.
    #[inline]
    fn add_to_sum(&mut self, value: f64) {
        let sum = self.sum + value;
        let lost = if self.sum.abs() >= value.abs() { (self.sum - sum) + value } else { (value - sum) + self.sum };
        // An infinite sum has lost everything; its difference to itself is no number.
        self.lost += if sum.is_finite() { lost } else { 0.0 };
        self.sum = sum;
    }

    /// Adds everything that `other` has seen.
    pub fn merge(&mut self, other: &Self) -> Result<(), SketchRefusal> {
        if self.settings() != other.settings() {
            return Err(SketchRefusal::Settings(self.settings(), other.settings()));
        }
        self.count = self.count.checked_add(other.count).ok_or(SketchRefusal::Count)?;
        self.positive.merge(&other.positive, self.max_buckets);
        if let Some(negative) = &other.negative {
            self.negative.get_or_insert_default().merge(negative, self.max_buckets);
        }
        self.zeros += other.zeros;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.add_to_sum(other.sum);
        self.add_to_sum(other.lost);
        Ok(())
    }

    /// Returns the value of rank `floor(q * (count - 1))` in ascending order, off by at most the relative accuracy.
    ///
    /// The first and the last rank are exact. `None` if the sketch is empty.
    pub fn quantile(&self, q: f64) -> Result<Option<f64>, SketchRefusal> {
        if !(0.0..=1.0).contains(&q) {
            return Err(SketchRefusal::Quantile(q));
        }
        let Some(last) = self.count.checked_sub(1) else { return Ok(None) };
        Ok(Some(self.value_at(((q * last as f64) as u64).min(last))))
    }

    /// Returns the smallest value that at least `percent` percent of the values do not exceed, off by at most the
    /// relative accuracy: the nearest rank, in whole numbers.
    ///
    /// The first and the last rank are exact. `None` if the sketch is empty.
    pub fn percentile(&self, percent: u8) -> Option<f64> {
        let last = self.count.checked_sub(1)?;
        let rank = (u128::from(self.count) * u128::from(percent)).div_ceil(100).saturating_sub(1);
        Some(self.value_at(u64::try_from(rank).map_or(last, |rank| rank.min(last))))
    }

    fn value_at(&self, rank: u64) -> f64 {
        if rank == 0 || rank == self.count - 1 {
            return if rank == 0 { self.min } else { self.max };
        }
        self.inner_value_at(rank).clamp(self.min, self.max)
    }

    fn inner_value_at(&self, rank: u64) -> f64 {
        let mut below = 0;
        let mut reaches = |count: u64| {
            below += count;
            below > rank
        };
        for (index, count) in self.negative.iter().flat_map(|store| store.iter().rev()) {
            if reaches(count) {
                return -self.mapping.value(index);
            }
        }
        if reaches(self.zeros) {
            return 0.0;
        }
        let found = self.positive.iter().find(|(_, count)| reaches(*count));
        found.map_or(self.max, |(index, _)| self.mapping.value(index))
    }

    /// Returns the requested relative error and bound on buckets.
    pub fn settings(&self) -> (f64, u32) {
        (self.accuracy, self.max_buckets)
    }

    /// Returns how many values were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of the values; infinite if it is too large for a float.
    pub fn sum(&self) -> f64 {
        self.sum + self.lost
    }

    /// Returns the smallest value; `None` without values.
    pub fn min(&self) -> Option<f64> {
        (self.count > 0).then_some(self.min)
    }

    /// Returns the largest value; `None` without values.
    pub fn max(&self) -> Option<f64> {
        (self.count > 0).then_some(self.max)
    }

    /// Whether the bound on buckets moved values to a bucket that is not theirs.
    pub fn has_collapsed(&self) -> bool {
        self.positive.collapsed() || self.negative.as_ref().is_some_and(|store| store.collapsed())
    }

    /// Returns the scale of the sketch's own buckets.
    pub fn scale(&self) -> u8 {
        self.mapping.scale()
    }

    /// Returns the counts as an exponential histogram, in buckets of this scale, the sketch's own or a coarser one.
    ///
    /// The counts are exact, because each bucket of a coarser scale is a whole number of finer ones.
    pub fn exponential(&self, scale: i32) -> Result<Exponential, SketchRefusal> {
        let own = self.mapping.scale();
        if !(COARSEST_SCALE..=i32::from(own)).contains(&scale) {
            return Err(SketchRefusal::Scale(scale, own));
        }
        let shift = i32::from(own) - scale;
        let negative = self.negative.as_ref().map_or_else(Buckets::default, |store| buckets(store, shift));
        Ok(Exponential { scale, zeros: self.zeros, positive: buckets(&self.positive, shift), negative })
    }
}

/// Returns the counts of a store, with `2^shift` buckets put together.
fn buckets(store: &Store, shift: i32) -> Buckets {
    let Some((low, _)) = store.iter().next() else { return Buckets::default() };
    let offset = low >> shift;
    let mut counts = Vec::new();
    for (index, count) in store.iter() {
        let place = ((index >> shift) - offset) as usize;
        counts.resize(counts.len().max(place + 1), 0);
        counts[place] += count;
    }
    Buckets { offset, counts }
}
