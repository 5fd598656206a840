//! The balancer's thread, and the plans that it carries out.

use super::SharedQueue;
use crate::batch::caller::Caller;
use crate::batch::caller_count::Role;
use crate::python_calls::{self, log_error};
use crate::{gil, thread};
use pyo3::prelude::*;
use std::sync::Arc;

impl SharedQueue {
    /// Starts the balancer's thread, if there is a balancer and something to balance.
    pub fn start_balancer(self: &Arc<Self>, py: Python<'_>) -> PyResult<()> {
        let process = self.process();
        let Some(balancing) = self.balancing.as_ref().filter(|_| process.queue.thread_count() > 1) else {
            return Ok(());
        };
        let (caller, queue) = (Caller::new(self, Role::Balance), process.queue.clone());
        let interval = balancing.interval;
        let name = format!("drainq-{}-balancer", self.name());
        let thread = thread::start(py, &name, move |py| {
            while gil::released(py, || queue.wait_open(interval)) {
                if let Err(error) = caller.shared().rebalance(py) {
                    let error = python_calls::value(py, error);
                    log_error(py, &format!("the balancer of queue {:?} failed", caller.shared().name()), &error);
                }
            }
        })?;
        process.threads.lock().push(thread);
        Ok(())
    }

    /// Asks the balancer for a plan and carries it out; returns how many partitions got another owner.
    pub fn rebalance(&self, py: Python<'_>) -> PyResult<usize> {
        let Some(balancing) = &self.balancing else { return Ok(0) };
        let measured = self.process().rebalancer.lock().measure();
        let Some(plan) = balancing.plan(py, measured)? else { return Ok(0) };
        Ok(self.process().rebalancer.lock().carry_out(&plan))
    }
}
