//! The counters of a queue at one moment, as `drainq.statistics.BatchQueueStats`.

use super::shared_queue::SharedQueue;
use crate::statistics;
use drainq_core::batch::type_route::TypeCounts;
use drainq_core::batch::{Outcome, Rejection};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Returns the counters of `shared` now.
pub fn take<'py>(py: Python<'py>, shared: &SharedQueue) -> PyResult<Bound<'py, PyAny>> {
    // The counters are read before the names, so that every type in them has a name.
    let snapshot = shared.queue().snapshot();
    let types: Vec<_> = shared.routing.keys.names(py).into_iter().zip(snapshot.types.iter().map(of_type)).collect();
    let threads: Vec<_> = (0..)
        .zip(&snapshot.workers)
        .map(|(id, worker)| {
            let owned = (0..).zip(&snapshot.owners).filter(|(_, owner)| usize::from(**owner) == id);
            let partitions: Vec<usize> = owned.map(|(partition, _)| partition).collect();
            let name = format!("drainq-{}-{id}", shared.name());
            (name, worker.outcomes.handled, worker.cycles, partitions, worker.busy_nanos as f64 / 1e9)
        })
        .collect();
    let (rejected, counters) = (PyDict::new(py), PyDict::new(py));
    Rejection::ALL
        .iter()
        .zip(snapshot.rejected)
        .try_for_each(|(reason, count)| rejected.set_item(reason.name(), count))?;
    let outcomes = snapshot.outcomes();
    Outcome::ALL.into_iter().try_for_each(|outcome| counters.set_item(outcome.name(), outcomes.of(outcome)))?;
    counters.set_item("types", types)?;
    counters.set_item("accepted", snapshot.accepted)?;
    counters.set_item("rejected", rejected)?;
    counters.set_item("abandoned", snapshot.abandoned)?;
    counters.set_item("queued", snapshot.queued)?;
    counters.set_item("total_capacity", snapshot.total_capacity())?;
    counters.set_item("used", snapshot.used)?;
    counters.set_item("buffer_size", snapshot.buffer_size)?;
    counters.set_item("allocated_bytes", snapshot.allocated_bytes)?;
    counters.set_item("rebalances", snapshot.rebalances)?;
    let gil_yield = &shared.process().gil_yield;
    counters.set_item("gil_yields", gil_yield.yields())?;
    counters.set_item("gil_waits", gil_yield.waits())?;
    statistics::BATCH_QUEUE.call(py, (threads, counters))
}

/// Returns the counters of a type in the order of `drainq.statistics.TypeStats`.
fn of_type(counts: &TypeCounts) -> (u64, u64, u64, u64) {
    let outcomes = &counts.outcomes;
    (counts.accepted, outcomes.handled, outcomes.failed + outcomes.dead_lettered, outcomes.unrouted)
}
