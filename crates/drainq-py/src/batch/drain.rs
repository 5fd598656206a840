//! The drain threads: `threading.Thread`s in a native loop, and the calls that they make.
//!
//! Waiting, taking and sorting happen without the GIL; then it is taken once for all calls
//! of a pass. The threads are daemons, so that they never hold up the interpreter's end by
//! themselves: `shutdown.rs` sees to it that they have nothing left then.
//!
//! A callable may fork. In the child its thread is the only one, and the pass that it was in is the
//! parent's. So when the callable returns there, the child ends (`shutdown::leave_child`).

use super::callers::{Caller, Role};
use super::drops::Reason;
use super::handler::Handler;
use super::shared::Shared;
use super::shutdown;
use super::types::item::Item;
use crate::calls::{self, log};
use crate::fork::Generation;
use crate::{gil, thread};
use drainq_core::batch::{Batch, Drainer, Outcome, Pass, Step};
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Shared {
    /// Starts the drain threads, and the balancer's, unless that was done.
    #[cold]
    pub fn start_threads(self: &Arc<Self>, py: Python<'_>) -> PyResult<()> {
        let process = self.process();
        if process.started.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        if let Some(pool) = self.pool() {
            pool.scheduler().add(process.queue.clone(), Caller::new(self, Role::Drain));
            pool.start_threads(py)?;
            return self.start_balancer(py);
        }
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
        started?;
        self.start_balancer(py)
    }

    fn hand_out(&self, py: Python<'_>, mut pass: Pass<'_, Item>) {
        let begun_in = Generation::now();
        while let Some(mut batch) = pass.next_batch() {
            let outcomes = self.hand_over(py, &mut batch);
            if begun_in.is_past() {
                shutdown::leave_child(py);
            }
            if !pass.account(batch, &outcomes) {
                return;
            }
        }
        for (key, handler) in self.watching(py) {
            if pass.drainer().found_nothing_for(key) {
                handler.idle(py);
                if begun_in.is_past() {
                    shutdown::leave_child(py);
                }
            }
        }
    }

    fn hand_over(&self, py: Python<'_>, batch: &mut Batch<Item>) -> Vec<(Outcome, u64)> {
        if let Some(consumer) = self.consumer() {
            return self.call(py, consumer, batch);
        }
        let Some(handler) = self.handler(py, batch.key) else {
            self.tell_unrouted(py, batch);
            return vec![(Outcome::Unrouted, batch.size)];
        };
        if !self.spreads_types() {
            return self.call(py, &handler, batch);
        }
        // The one lock of ours under which Python code runs: see the crate's header.
        let serial = self.process().serial(batch.key);
        loop {
            let one_call_at_a_time = serial.try_lock();
            if one_call_at_a_time.is_some() {
                return self.call(py, &handler, batch);
            }
            gil::released(py, || drop(serial.lock()));
        }
    }

    fn call(&self, py: Python<'_>, handler: &Handler, batch: &mut Batch<Item>) -> Vec<(Outcome, u64)> {
        handler.call(py, batch, self.error_handler(), self.name())
    }

    fn tell_unrouted(&self, py: Python<'_>, batch: &mut Batch<Item>) {
        batch.items.clear();
        if self.first_unrouted(batch.key) {
            let name = self.keys.name(py, batch.key);
            let name = calls::shown(name.bind(py));
            log(
                py,
                "warning",
                &format!("queue {:?} has no handler for {name}: its items are counted as unrouted", self.name()),
            );
        }
        self.drops.add(py, Reason::Unrouted, batch.size);
    }

    fn tell_idle(&self, py: Python<'_>, drainer: &Drainer<Item>) {
        let begun_in = Generation::now();
        if let Some(consumer) = self.consumer() {
            consumer.idle(py);
        }
        for (key, handler) in self.watching(py) {
            if begun_in.is_past() {
                break;
            }
            if drainer.found_nothing_for(key) {
                handler.idle(py);
            }
        }
        if begun_in.is_past() {
            shutdown::leave_child(py);
        }
    }
}

/// One pass of a borrowed drainer; whether it found something.
pub fn serve(py: Python<'_>, shared: &Shared, drainer: &mut Drainer<Item>) -> bool {
    let turn = &shared.process().turn;
    let (step, since) = gil::released(py, || {
        let step = drainer.try_step();
        let since = matches!(step, Step::Pass(_)).then(|| turn.want());
        (step, since)
    });
    if let Some(since) = since {
        turn.got(since);
    }
    match step {
        Step::Pass(pass) => {
            shared.hand_out(py, pass);
            true
        }
        Step::Idle(drainer) => {
            shared.tell_idle(py, drainer);
            false
        }
        Step::Closed => false,
    }
}

/// A drain thread's life.
fn run(py: Python<'_>, shared: &Shared, mut drainer: Drainer<Item>) {
    while step(py, shared, &mut drainer) {}
}

/// Waits for something to do, and does it; false if there will be nothing more.
fn step(py: Python<'_>, shared: &Shared, drainer: &mut Drainer<Item>) -> bool {
    // The producers' lock is the GIL.
    let settle = |end_calm: &dyn Fn()| {
        gil::held(|_| end_calm());
    };
    let turn = &shared.process().turn;
    let (step, since) = gil::released(py, || {
        let step = drainer.next_step(settle);
        let since = matches!(step, Step::Pass(_)).then(|| turn.want());
        (step, since)
    });
    if let Some(since) = since {
        turn.got(since);
    }
    match step {
        Step::Pass(pass) => shared.hand_out(py, pass),
        Step::Idle(drainer) => shared.tell_idle(py, drainer),
        Step::Closed => return false,
    }
    true
}
