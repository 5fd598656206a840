//! The balancers, which decide which drain thread owns which partition: `DrainBalancer`, and a user's (`UserBalancer`).

use crate::pickling::{self, Recipe};
use crate::{errors, python_calls};
use drainq_core::batch::drain_balancer::{Balancer, ThroughputWeighted};
use drainq_core::batch::item::ThreadId;
use drainq_core::batch::rebalance::Throughput;
use pyo3::prelude::*;
use std::time::Duration;

/// Decides which drain thread owns which partition.
///
/// A queue takes any object with ``assign(throughput, owners, threads)``, or a callable of
/// that shape, in its place: two lists by partition (items taken in since the last call;
/// number of the owning thread) and the number of threads. It returns the new owners, or
/// None to leave all as it is. A ``DrainBalancer`` can be pickled and copied.
///
/// Example:
///     >>> from drainq import DrainBalancer
///     >>> DrainBalancer.throughput_weighted().assign([9, 9, 1], [0, 0, 0], 2)
///     [0, 1, 0]
///
/// Source: ``DrainBalancer`` in SkyWalking's ``library-batch-queue``.
#[pyclass(module = "drainq", frozen)]
pub struct DrainBalancer(ThroughputWeighted);

#[pymethods]
impl DrainBalancer {
    /// Give the partition with the most items to the thread with the fewest, and so on.
    ///
    /// Does nothing while the busiest thread has less than 1.15 times the load of the least
    /// busy one, or if no plan would make the busiest thread's load smaller.
    #[staticmethod]
    fn throughput_weighted() -> Self {
        Self(ThroughputWeighted)
    }

    /// Return the new owner of each partition, or None.
    fn assign(&self, throughput: Vec<u64>, owners: Vec<u16>, threads: usize) -> PyResult<Option<Vec<u16>>> {
        if throughput.len() != owners.len() || owners.iter().any(|owner| usize::from(*owner) >= threads) {
            return Err(errors::bad_value(format!(
                "throughput and owners must be of one length and owners below threads, got {throughput:?}, \
                 {owners:?}, {threads}"
            )));
        }
        Ok(self.0.assign(&throughput, &owners, threads))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Recipe<'py>> {
        pickling::made_by(slf, "throughput_weighted", ())
    }

    #[allow(clippy::unused_self)]
    fn __repr__(&self) -> &'static str {
        "DrainBalancer.throughput_weighted()"
    }
}

/// The user's balancer, and how often it is asked.
pub struct UserBalancer {
    /// The user's object.
    pub balancer: Py<PyAny>,
    /// Time between two calls of the balancer.
    pub interval: Duration,
}

impl UserBalancer {
    /// Asks the balancer for the new owner of each partition, and checks the answer.
    pub fn plan(&self, py: Python<'_>, measured: Throughput) -> PyResult<Option<Vec<ThreadId>>> {
        let plan =
            python_calls::plan(self.balancer.bind(py), measured.by_partition, &measured.owners, measured.threads)?;
        let Some(plan) = plan else { return Ok(None) };
        let valid = |owner: &i64| (0..measured.threads as i64).contains(owner);
        if plan.len() != measured.owners.len() || !plan.iter().all(valid) {
            return Err(errors::bad_value(format!(
                "a balancer must return one thread number below {} for each of the {} partitions, got {plan:?}",
                measured.threads,
                measured.owners.len()
            )));
        }
        Ok(Some(plan.into_iter().map(|owner| owner as ThreadId).collect()))
    }
}
