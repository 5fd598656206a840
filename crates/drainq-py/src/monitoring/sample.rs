//! The samples of one moment.

use super::catalog::FamilyId;

/// The value of a sample.
#[derive(Clone, Debug)]
pub enum SampleValue {
    /// A count.
    Whole(u64),
    /// A number with a unit.
    Real(f64),
    /// A histogram: for each upper bound the number of values up to it; the sum and number of all values.
    Buckets { up_to: Vec<(f64, u64)>, sum: f64, count: u64 },
}

impl From<u64> for SampleValue {
    fn from(count: u64) -> Self {
        Self::Whole(count)
    }
}

impl From<usize> for SampleValue {
    fn from(count: usize) -> Self {
        Self::Whole(count as u64)
    }
}

impl From<bool> for SampleValue {
    fn from(is: bool) -> Self {
        Self::Whole(u64::from(is))
    }
}

impl From<f64> for SampleValue {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

/// A value with its labels.
#[derive(Clone, Debug)]
pub struct Sample {
    pub family: FamilyId,
    /// The values of the family's labels, in the family's order.
    pub labels: Vec<String>,
    pub value: SampleValue,
}

/// The samples of one moment, in the order in which they were added; [`Reading::into_samples`] sorts them.
#[derive(Default)]
pub struct Reading(Vec<Sample>);

impl Reading {
    /// Adds a sample; `labels` are values for the family's labels.
    pub fn add(&mut self, family: FamilyId, labels: &[&str], value: impl Into<SampleValue>) {
        debug_assert_eq!(labels.len(), family.family().labels.len());
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        self.0.push(Sample { family, labels, value: value.into() });
    }

    /// Adds samples as they are.
    pub fn extend(&mut self, samples: impl IntoIterator<Item = Sample>) {
        self.0.extend(samples);
    }

    /// Returns the samples in the order of the catalogue.
    pub fn into_samples(self) -> Vec<Sample> {
        let mut samples = self.0;
        samples.sort_by_key(|sample| sample.family);
        samples
    }
}
