//! Snapshots of the counters, as `SubQueueStats` and `MultiQueueStats` of `drainq.statistics`.

use super::core_types::{Core, SubCore};
use crate::statistics;
use drainq_core::multi::{Counters, Stats};
use pyo3::prelude::*;

/// The fields of `drainq.statistics.SubQueueStats`, in order.
type Fields = (usize, usize, u64, u64, u64, u64, u64, Option<f64>, usize);

fn fields(stats: Stats) -> Fields {
    let oldest_age = stats.oldest_age.map(|age| age.as_secs_f64());
    let (depth, putters) = (stats.depth, stats.blocked_putters);
    let Counters { put, got, rejected, duplicates, removed, high_water } = stats.counters;
    (depth, high_water, put, got, rejected, duplicates, removed, oldest_age, putters)
}

/// Returns the counters of one sub-queue now.
pub fn of_sub_queue<'py>(py: Python<'py>, core: &SubCore) -> PyResult<Bound<'py, PyAny>> {
    statistics::SUB_QUEUE.call(py, fields(core.stats()))
}

/// Returns the counters of a multi-queue now, and of the given sub-queues with their keys.
pub fn of_multi_queue<'py>(
    py: Python<'py>,
    core: &Core,
    keys: Vec<Bound<'py, PyAny>>,
    sub_queues: &[&SubCore],
) -> PyResult<Bound<'py, PyAny>> {
    let (each, total, blocked_getters) = core.stats(sub_queues);
    let parts: Vec<_> = keys.into_iter().zip(each).filter_map(|(key, stats)| Some((key, fields(stats?)))).collect();
    statistics::MULTI_QUEUE.call(py, (fields(total), blocked_getters, parts))
}
