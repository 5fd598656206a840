//! The drain threads: daemon `threading.Thread`s in a native loop, and the handler calls that they make.
//!
//! A drain thread waits, takes items and groups them by type without the GIL; then it takes the GIL once
//! for all calls of the pass. A daemon thread does not hold up the interpreter's end: `interpreter_exit.rs` shuts the
//! queues down before, so that nothing is left to do by then.
//!
//! The threads start inside the call that makes the queue. With a short `min_idle` they find nothing to do before that
//! call returns, and an `on_idle` that uses the variable to which the program assigns the queue would find no value. So
//! the first idle report comes from a step that began after that call.

use super::SharedQueue;
use crate::batch::caller::Caller;
use crate::batch::caller_count::Role;
use crate::batch::handler::Handler;
use crate::batch::shared_scheduler::{PoolLoan, Serve, Served};
use crate::batch::types::item::Item;
use crate::python_calls::log;
use crate::{errors, gil, thread};
use drainq_core::batch::drop_counts::DropReason;
use drainq_core::batch::{Batch, Drainer, Outcome, Pass, Step};
use pyo3::prelude::*;
use std::sync::Arc;
use std::time::Instant;

impl SharedQueue {
    /// Starts the drain threads, and the balancer's, unless they were started.
    #[cold]
    pub fn start_threads(self: &Arc<Self>, py: Python<'_>) -> PyResult<()> {
        let process = self.process();
        if !process.claim_start() {
            return Ok(());
        }
        if let Some(pool) = self.pool() {
            pool.scheduler().add(process.queue.clone(), Arc::new(Caller::new(self, Role::Drain)));
            let started = pool.start_threads(py);
            if started.is_err() {
                // The pool may have no thread, and an accepted item would wait for ever.
                process.queue.close();
            }
            started?;
            return self.start_balancer(py);
        }
        // This caller outlives the close below: if no thread starts, the caller's end calls `on_close`.
        let starting = Caller::new(self, Role::Drain);
        let started: PyResult<()> = process.worker_ids().try_for_each(|id| {
            let (caller, drainer) = (Caller::new(self, Role::Drain), Drainer::new(process.queue.clone(), id));
            let name = format!("drainq-{}-{id}", self.name());
            let thread = thread::start(py, &name, move |py| run(py, caller.shared(), drainer))?;
            process.threads.lock().push(thread);
            Ok(())
        });
        if started.is_err() {
            // The threads that did start have nothing to do and end.
            process.queue.close();
        }
        drop(starting);
        started?;
        self.start_balancer(py)
    }

    /// Hands the batches of a pass to their handlers, one after the other. The first call is timed from `began`.
    fn deliver_pass(&self, py: Python<'_>, mut pass: Pass<'_, Item>, mut began: Instant) {
        while let Some(mut batch) = pass.next_batch() {
            let outcomes = self.deliver(py, &mut batch, &mut began);
            if !pass.account(batch, &outcomes) {
                return;
            }
        }
        for (key, handler) in self.callables.handlers.with_on_idle(py) {
            if pass.drainer().found_nothing_for(key) {
                handler.idle(py);
            }
        }
    }

    /// Calls the handler of one batch, and returns the outcome of its items.
    fn deliver(&self, py: Python<'_>, batch: &mut Batch<Item>, began: &mut Instant) -> Vec<(Outcome, u64)> {
        if let Some(consumer) = &self.callables.consumer {
            return self.call_handler(py, consumer, batch, began);
        }
        let Some(handler) = self.callables.handlers.get(py, batch.key) else {
            self.report_unrouted(py, batch);
            *began = Instant::now();
            return vec![(Outcome::Unrouted, batch.size)];
        };
        if !self.spreads_types() {
            return self.call_handler(py, &handler, batch, began);
        }
        // The only lock of drainq under which Python code runs: see the crate's header.
        let serial = self.process().serial(batch.key);
        loop {
            let one_call_at_a_time = serial.try_lock();
            if one_call_at_a_time.is_some() {
                return self.call_handler(py, &handler, batch, began);
            }
            gil::released(py, || drop(serial.lock()));
            *began = Instant::now();
        }
    }

    /// Calls a handler, and counts how long that took from `began`, which becomes its end.
    fn call_handler(
        &self,
        py: Python<'_>,
        handler: &Handler,
        batch: &mut Batch<Item>,
        began: &mut Instant,
    ) -> Vec<(Outcome, u64)> {
        let (size, process) = (batch.size, self.process());
        let outcomes = handler.call(py, batch, self.callables.on_error.as_ref(), self.name());
        // The clock is read once for each call: a call begins when the call before it ended.
        let now = Instant::now();
        process.handler_nanos.add(py, (now - *began).as_nanos() as u64);
        process.batch_sizes.add(py, size);
        *began = now;
        outcomes
    }

    fn report_unrouted(&self, py: Python<'_>, batch: &mut Batch<Item>) {
        batch.items.clear();
        if self.callables.handlers.first_unrouted(batch.key) {
            let name = self.routing.keys.name(py, batch.key);
            let name = errors::shown(name.bind(py));
            log(
                py,
                "warning",
                &format!("queue {:?} has no handler for {name}: its items are counted as unrouted", self.name()),
            );
        }
        self.drops.add(py, DropReason::Unrouted, batch.size);
    }

    /// Calls `on_idle` of the consumer, and of each handler for whose type the drainer found nothing.
    fn call_on_idle(&self, py: Python<'_>, drainer: &Drainer<Item>) {
        if let Some(consumer) = &self.callables.consumer {
            consumer.idle(py);
        }
        for (key, handler) in self.callables.handlers.with_on_idle(py) {
            if drainer.found_nothing_for(key) {
                handler.idle(py);
            }
        }
    }

    /// Takes one step without the GIL, if there is one for this thread, then makes its handler calls with the GIL.
    fn serve<'a>(&self, py: Python<'_>, step: impl Send + FnOnce() -> Option<Step<'a, Item>>) -> Served {
        let gil_yield = &self.process().gil_yield;
        let is_made = self.is_made();
        let (step, asked_at) = gil::released(py, || {
            let step = step();
            let asked_at = matches!(step, Some(Step::Pass(_))).then(|| gil_yield.ask());
            (step, asked_at)
        });
        let granted_at = asked_at.map(|asked_at| gil_yield.granted(asked_at));
        match step {
            Some(Step::Pass(pass)) => {
                self.process().waiting_tasks.wake();
                self.deliver_pass(py, pass, granted_at.unwrap_or_else(Instant::now));
                self.process().waiting_tasks.wake();
                Served::Items
            }
            Some(Step::Idle(drainer)) => {
                if is_made {
                    self.call_on_idle(py, drainer);
                }
                Served::Nothing
            }
            Some(Step::Closed) => Served::Closed,
            None => Served::Nothing,
        }
    }
}

impl Serve for Caller {
    fn serve(&self, py: Python<'_>, loan: &mut PoolLoan<'_>) -> Served {
        self.shared().serve(py, || loan.step())
    }
}

/// Runs a drain thread of a queue's own: waits for items and delivers them until the queue is closed and empty.
fn run(py: Python<'_>, shared: &SharedQueue, mut drainer: Drainer<Item>) {
    while shared.serve(py, || Some(drainer.next_step(|close| shared.sync_with_producers(close)))) != Served::Closed {}
}
