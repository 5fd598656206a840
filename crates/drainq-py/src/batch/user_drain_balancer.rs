//! `UserBalancer`: the user's balancer, its interval, and its plans.

use crate::{errors, python_calls};
use drainq_core::batch::item::ThreadId;
use drainq_core::batch::rebalance::Throughput;
use pyo3::prelude::*;
use std::time::Duration;

/// The user's balancer, and how often it is asked.
pub struct UserBalancer {
    balancer: Py<PyAny>,
    /// Time between two calls of the balancer.
    pub interval: Duration,
}

impl UserBalancer {
    /// Keeps a balancer, and the time between two of its calls.
    pub fn new(balancer: Py<PyAny>, interval: Duration) -> Self {
        Self { balancer, interval }
    }

    /// Returns the user's object, to be shown to the garbage collector.
    pub fn balancer(&self) -> &Py<PyAny> {
        &self.balancer
    }

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
