//! The functions for `drainq.monitoring`: name native queues, publish samples, read all metrics.

use super::catalog::{FAMILIES, FamilyId, FamilyKind};
use super::object_registry::Observed;
use super::sample::{Sample, SampleValue};
use super::{http_answer, object_registry};
use crate::batch::queue::BatchQueue;
use crate::errors;
use crate::multi::MultiQueue;
use crate::sources::SetQueue;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use std::sync::{Arc, Weak};

/// A family, for Python: name, kind, labels, help.
type Described = (&'static str, &'static str, Vec<&'static str>, &'static str);

/// A sample, for Python: the family's name, the values of its labels, the value.
type Shown = (&'static str, Vec<String>, f64);

/// A sample, from Python.
type Given<'py> = (String, Vec<String>, Bound<'py, PyAny>);

/// Returns every metric family: ``(name, kind, labels, help)``. A counter's samples end in ``_total``.
#[pyfunction]
pub fn metric_families() -> Vec<Described> {
    FAMILIES.iter().map(|it| (it.name, it.kind.name(), it.labels.to_vec(), it.help())).collect()
}

/// Returns the samples of a family, or of all, now: ``(family, label values, value)``. Histograms are left out.
#[pyfunction]
#[pyo3(signature = (family=None))]
pub fn read_samples(family: Option<&str>) -> Vec<Shown> {
    let samples = object_registry::read_all().into_samples();
    let is_wanted = |sample: &Sample| family.is_none_or(|family| sample.family.family().name == family);
    let shown = samples.into_iter().filter(is_wanted).filter_map(|sample| {
        let value = match sample.value {
            SampleValue::Whole(count) => count as f64,
            SampleValue::Real(number) => number,
            SampleValue::Buckets { .. } => return None,
        };
        Some((sample.family.family().name, sample.labels, value))
    });
    shown.collect()
}

/// Answers a request for the counters, as the endpoint does: ``(status, headers, body)``.
#[pyfunction]
pub fn answer_scrape(method: &str, accept: &str) -> (&'static str, Vec<(&'static str, String)>, String) {
    let answer = http_answer::metrics(method, accept, object_registry::read_all());
    (answer.status, answer.headers, answer.body)
}

/// Registers a native queue with the endpoint under a name; returns the name that it got, or None for an object of
/// another class.
#[pyfunction]
pub fn observe_native(object: &Bound<'_, PyAny>, name: &str) -> Option<String> {
    let (kind, object) = native(object)?;
    Some(object_registry::observe(kind, name, object))
}

/// Removes a native queue from the endpoint.
#[pyfunction]
pub fn unobserve_native(object: &Bound<'_, PyAny>) {
    if let Some((_, object)) = native(object) {
        object_registry::forget(&object);
    }
}

fn native(object: &Bound<'_, PyAny>) -> Option<(&'static str, Weak<dyn Observed>)> {
    if let Ok(queue) = object.cast::<MultiQueue>() {
        return Some(("multi", queue.get().observed()));
    }
    if let Ok(queue) = object.cast::<BatchQueue>() {
        return Some(("batch", Arc::downgrade(queue.get().shared()) as Weak<dyn Observed>));
    }
    object.cast::<SetQueue>().ok().map(|queue| ("set", queue.get().observed()))
}

/// Publishes the samples of an object whose counters only Python code knows: ``(family, label values, value)``. The value
/// of a histogram is ``([(upper bound, values up to it)], sum, count)``. None if they could not be read: the last ones
/// stay, and the error is counted.
#[pyfunction]
#[pyo3(signature = (kind, name, samples))]
pub fn publish_samples(kind: &str, name: &str, samples: Option<Vec<Given<'_>>>) -> PyResult<()> {
    let sample = |(family, labels, value): Given<'_>| {
        let id = FamilyId::find(&family)
            .filter(|id| id.family().labels.len() == labels.len())
            .ok_or_else(|| errors::bad_value(format!("no family {family:?} has the labels {labels:?}")))?;
        let value = if id.family().kind == FamilyKind::Histogram {
            let (up_to, sum, count) = value.extract()?;
            SampleValue::Buckets { up_to, sum, count }
        } else if let Ok(is) = value.cast::<PyBool>() {
            is.is_true().into()
        } else {
            value.extract::<u64>().map(SampleValue::from).or_else(|_| value.extract::<f64>().map(Into::into))?
        };
        Ok(Sample { family: id, labels, value })
    };
    let samples = samples.map(|samples| samples.into_iter().map(sample).collect::<PyResult<_>>()).transpose()?;
    object_registry::publish(kind, name, samples);
    Ok(())
}

/// Removes the samples of an object.
#[pyfunction]
pub fn withdraw_samples(kind: &str, name: &str) {
    object_registry::withdraw(kind, name);
}
