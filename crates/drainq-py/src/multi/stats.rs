//! Snapshots of the counters, as Python objects.

use super::values;
use crate::gil;
use crate::pickling;
use drainq_core::multi::Stats;
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The counters of one sub-queue at one moment.
///
/// ``put == got + removed + depth`` holds in every snapshot, and ``put + rejected`` is the
/// number of items that were offered and answered.
///
/// Attributes:
///     depth: items waiting now, those that a waiting ``get_many`` holds included.
///     high_water: the largest depth so far.
///     put: items accepted.
///     got: items handed to getters.
///     rejected: items refused: no room (in time), shut down, removed, or interrupted.
///     removed: items taken out by ``clear``, ``remove``, ``remove_if`` or an immediate shutdown.
///     oldest_age: seconds that the head has waited, to a few milliseconds; None when empty.
///     blocked_putters: threads and tasks that wait for room now.
#[pyclass(frozen, get_all, module = "drainq")]
pub struct SubQueueStats {
    depth: usize,
    high_water: usize,
    put: u64,
    got: u64,
    rejected: u64,
    removed: u64,
    oldest_age: Option<f64>,
    blocked_putters: usize,
}

impl From<Stats> for SubQueueStats {
    fn from(stats: Stats) -> Self {
        Self {
            depth: stats.depth,
            high_water: stats.counters.high_water,
            put: stats.counters.put,
            got: stats.counters.got,
            rejected: stats.counters.rejected,
            removed: stats.counters.removed,
            oldest_age: stats.oldest_age.map(|age| age.as_secs_f64()),
            blocked_putters: stats.blocked_putters,
        }
    }
}

impl SubQueueStats {
    fn fields(&self) -> String {
        let age = self.oldest_age.map_or("None".to_owned(), |age| format!("{age:.6}"));
        format!(
            "depth={}, high_water={}, put={}, got={}, rejected={}, removed={}, oldest_age={age}, blocked_putters={}",
            self.depth, self.high_water, self.put, self.got, self.rejected, self.removed, self.blocked_putters
        )
    }
}

#[pymethods]
impl SubQueueStats {
    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        pickling::refuse(slf, "only a queue makes one", "its numbers")
    }

    fn __repr__(&self) -> String {
        format!("SubQueueStats({})", self.fields())
    }
}

/// The counters of a multi-queue at one moment, in total and per sub-queue.
///
/// The totals count since the beginning, removed sub-queues included: what a sub-queue still
/// held when it was removed counts as ``removed``. So ``put == got + removed + depth``.
///
/// Attributes:
///     depth: items waiting now, those of disabled sub-queues included.
///     high_water: the largest total depth so far.
///     put, got, rejected, removed: as in :class:`SubQueueStats`.
///     oldest_age: seconds that the oldest head has waited; None when all are empty.
///     blocked_putters: threads and tasks that wait for room now.
///     blocked_getters: threads and tasks that wait for an item now.
///     sub_queues: a :class:`SubQueueStats` by key; ``stats[key]`` is short for it.
#[pyclass(frozen, get_all, module = "drainq")]
pub struct MultiQueueStats {
    depth: usize,
    high_water: usize,
    put: u64,
    got: u64,
    rejected: u64,
    removed: u64,
    oldest_age: Option<f64>,
    blocked_putters: usize,
    blocked_getters: usize,
    sub_queues: Py<PyDict>,
}

impl MultiQueueStats {
    pub fn new(total: Stats, blocked_getters: usize, sub_queues: Py<PyDict>) -> Self {
        let SubQueueStats { depth, high_water, put, got, rejected, removed, oldest_age, blocked_putters } =
            total.into();
        Self {
            depth,
            high_water,
            put,
            got,
            rejected,
            removed,
            oldest_age,
            blocked_putters,
            blocked_getters,
            sub_queues,
        }
    }
}

#[pymethods]
impl MultiQueueStats {
    /// The counters of the sub-queue of this key.
    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let known = self.sub_queues.bind(key.py());
        gil::look_up(known, key)?.ok_or_else(|| values::unknown_key(key, &known.keys()))
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        pickling::refuse(slf, "only a queue makes one", "its numbers")
    }

    /// Shows the garbage collector the keys, which may hold the snapshot.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.sub_queues)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let Self { depth, high_water, put, got, rejected, removed, .. } = self;
        let subs = gil::repr(self.sub_queues.bind(py))?;
        Ok(format!(
            "MultiQueueStats(depth={depth}, high_water={high_water}, put={put}, got={got}, rejected={rejected}, \
             removed={removed}, blocked_putters={}, blocked_getters={}, sub_queues={subs})",
            self.blocked_putters, self.blocked_getters
        ))
    }
}
