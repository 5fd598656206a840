//! The balancer's thread, and how its plans are checked and carried out.

use super::caller::Caller;
use super::callers::Role;
use super::exit;
use super::shared::Shared;
use crate::calls::{self, log_error};
use crate::fork::Generation;
use crate::{errors, gil, thread};
use pyo3::prelude::*;
use std::sync::Arc;

impl Shared {
    /// Starts the balancer's thread, if there is a balancer and something to balance.
    pub fn start_balancer(self: &Arc<Self>, py: Python<'_>) -> PyResult<()> {
        let process = self.process();
        if self.balancer().is_none() || process.queue.thread_count() < 2 {
            return Ok(());
        }
        let (caller, queue) = (Caller::new(self, Role::Balance), process.queue.clone());
        let interval = self.rebalance_interval();
        let name = format!("drainq-{}-balancer", self.name());
        let thread = thread::start(py, &name, move |py| {
            let begun_in = Generation::now();
            while gil::released(py, || queue.wait_open(interval)) {
                if let Err(error) = caller.shared().rebalance(py) {
                    let error = calls::value(py, error);
                    log_error(py, &format!("the balancer of queue {:?} failed", caller.shared().name()), &error);
                    gil::let_go(error.into_any());
                }
                if begun_in.is_past() {
                    exit::leave_child(py);
                }
            }
        })?;
        process.threads.lock().push(thread);
        Ok(())
    }

    /// Asks the balancer for a plan and carries it out; returns how many partitions got another owner.
    pub fn rebalance(&self, py: Python<'_>) -> PyResult<usize> {
        let Some(balancer) = self.balancer() else { return Ok(0) };
        let load = self.process().rebalancer.lock().look();
        let plan = calls::plan(balancer.bind(py), load.throughput, &load.owners, load.threads)?;
        let Some(plan) = plan else { return Ok(0) };
        let valid = |owner: &i64| (0..load.threads as i64).contains(owner);
        if plan.len() != load.owners.len() || !plan.iter().all(valid) {
            return Err(errors::bad_value(format!(
                "a balancer must return one thread number below {} for each of the {} partitions, got {plan:?}",
                load.threads,
                load.owners.len()
            )));
        }
        let plan: Vec<u16> = plan.into_iter().map(|owner| owner as u16).collect();
        Ok(self.process().rebalancer.lock().carry_out(&plan))
    }
}
