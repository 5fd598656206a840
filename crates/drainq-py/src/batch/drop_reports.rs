//! The reports of items that are not handled: one warning in the log and one call of `on_drop` for each
//! reason, at most once a second (`drop_counts.rs` in the core). Every item is in one report.
//!
//! A count that is added within a second of a report waits for the next count of the same reason, a flush, a shutdown,
//! or a thread, the reporter. The end of the queue may be in a finaliser, which runs on any thread and under any lock,
//! so it only wakes the reporter: a report could wait for another lock, such as that of the log's handler.
//!
//! # Invariants
//! 1. Each count that the core's `DropCounts` returns is reported once.
//! 2. `reports` is locked with the GIL held, and no Python code runs meanwhile.
//! 3. While counts wait there is a reporter, unless no thread could be started: then they were reported at once.
//! 4. A report is made by the reporter, or on a thread that called the queue: never by a finaliser.
//! 5. At the interpreter's exit the reporters are waited for, for a batch queue's default time at most: a reporter
//!    outlives its queue.

use super::interpreter_exit::{self, Live};
use crate::ctrl_c;
use crate::deadline::Deadline;
use crate::fork::{self, Renew};
use crate::python_calls::{self, log_error};
use crate::{gil, thread};
use drainq_core::batch::config::EXIT_TIMEOUT;
use drainq_core::batch::drop_counts::{DropCounts, DropReason, INTERVAL};
use drainq_core::sync::Mutex;
use drainq_core::wait::waiters::Waiters;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The thread that reports the counts that wait, as other threads see it.
#[derive(Default)]
struct Reporter {
    /// The reporter itself, which sleeps until the next report.
    sleeping: Waiters,
    has_ended: AtomicBool,
    /// Threads that wait for its end.
    waiting: Waiters,
}

impl Reporter {
    /// Sleeps until the next report.
    fn sleep(&self) {
        let mut waiter = self.sleeping.enter();
        waiter.wait(INTERVAL);
        waiter.served();
    }

    /// Ends the sleep.
    fn wake(&self) {
        self.sleeping.notify_all();
    }

    /// Records that everything was reported.
    fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        self.waiting.notify_all();
    }

    /// Wakes the reporter and waits up to `timeout` for its end: true if the reporter has ended.
    fn wait_ended(&self, timeout: Duration) -> bool {
        let mut waiter = self.waiting.enter();
        self.wake();
        if !self.has_ended.load(Ordering::Acquire) {
            waiter.wait(timeout);
        }
        self.has_ended.load(Ordering::Acquire)
    }
}

#[derive(Default)]
struct Reports {
    counts: DropCounts,
    /// The reporter, while there is one.
    reporter: Option<Arc<Reporter>>,
}

/// The counts of items that are not handled, reported and waiting.
pub struct DropReports {
    queue: String,
    on_drop: Option<Py<PyAny>>,
    reports: Mutex<Reports>,
}

impl DropReports {
    /// Makes a list without counts. `on_drop` is called with each report.
    pub fn new(queue: &str, on_drop: Option<Py<PyAny>>) -> Arc<Self> {
        let drops = Arc::new(Self { queue: queue.to_owned(), on_drop, reports: Mutex::default() });
        interpreter_exit::register(Arc::downgrade(&drops) as Weak<dyn Live>);
        fork::register(Arc::downgrade(&drops) as Weak<dyn Renew>);
        drops
    }

    /// Adds `count` items, and reports them unless the last report was less than a second ago.
    pub fn add(self: &Arc<Self>, py: Python<'_>, reason: DropReason, count: u64) {
        if count == 0 {
            return;
        }
        let due = self.reports.lock().counts.add(reason, count, Instant::now());
        if let Some(due) = due {
            self.report(py, reason, due);
        } else if interpreter_exit::is_over() || (!self.has_reporter() && self.start_reporter(py).is_err()) {
            self.flush(py);
        }
    }

    /// Reports the counts that wait, and ends the reporter.
    pub fn flush(&self, py: Python<'_>) {
        let waiting = self.reports.lock().counts.take_all(Instant::now());
        for (reason, count) in waiting {
            self.report(py, reason, count);
        }
        self.wake_reporter();
    }

    /// Has the reporter, if there is one, report the counts that wait now. Runs no Python code. Called with the GIL
    /// held.
    pub fn wake_reporter(&self) {
        if let Some(reporter) = self.reporter() {
            reporter.wake();
        }
    }

    fn reporter(&self) -> Option<Arc<Reporter>> {
        self.reports.lock().reporter.clone()
    }

    /// Whether a thread is there that may call `on_drop`.
    pub fn has_reporter(&self) -> bool {
        self.reports.lock().reporter.is_some()
    }

    fn start_reporter(self: &Arc<Self>, py: Python<'_>) -> PyResult<()> {
        let (reporter, drops) = (Arc::new(Reporter::default()), self.clone());
        self.reports.lock().reporter = Some(reporter.clone());
        let name = format!("drainq-{}-drops", self.queue);
        let started = thread::start(py, &name, move |py| drops.report_later(py, &reporter));
        if started.is_err() {
            self.reports.lock().reporter = None;
        }
        started.map(drop)
    }

    /// Runs the reporter: reports the counts that wait once a second, until there are none.
    fn report_later(&self, py: Python<'_>, reporter: &Reporter) {
        loop {
            gil::released(py, || reporter.sleep());
            self.flush(py);
            let mut reports = self.reports.lock();
            if !reports.counts.wait() {
                reports.reporter = None;
                drop(reports);
                reporter.end();
                return;
            }
        }
    }

    fn report(&self, py: Python<'_>, reason: DropReason, count: u64) {
        let message = format!("queue {:?}: {count} items not handled: {}", self.queue, reason.name());
        let logged = python_calls::try_log(py, "warning", &message);
        self.call_on_drop(py, reason, count);
        // Last, so that Ctrl-C while the line is written does not end `on_drop`.
        if let Err(error) = logged {
            python_calls::report_unraised(py, error);
        }
    }

    fn call_on_drop(&self, py: Python<'_>, reason: DropReason, count: u64) {
        let Some(on_drop) = &self.on_drop else { return };
        let answer = count.into_pyobject(py).map_err(PyErr::from).and_then(|count| {
            let reason = PyString::intern(py, reason.name());
            gil::call(on_drop.bind(py), [&reason, &count])
        });
        if let Err(error) = answer.and_then(|answer| python_calls::check_answer("on_drop", answer)) {
            let error = python_calls::value(py, error);
            if !python_calls::interrupt_again(py, &error) {
                log_error(py, "on_drop raised", &error);
            }
        }
    }

    /// Returns the callable, to be shown to the garbage collector.
    pub fn held(&self) -> Option<&Py<PyAny>> {
        self.on_drop.as_ref()
    }
}

impl Live for DropReports {
    fn is_running(&self) -> bool {
        false
    }

    fn flush_at_exit(&self, _py: Python<'_>) -> PyResult<()> {
        Ok(())
    }

    /// Has all counts reported (invariant 5): those that wait, and those that the reporter is reporting.
    fn end_at_exit(&self, py: Python<'_>) -> PyResult<()> {
        self.flush(py);
        let Some(reporter) = self.reporter() else { return Ok(()) };
        let deadline = Deadline::after("shutdown_timeout", Some(EXIT_TIMEOUT.as_secs_f64()))?;
        ctrl_c::wait(py, deadline, |slice| reporter.wait_ended(slice).then_some(())).map(drop)
    }
}

impl Renew for DropReports {
    /// Removes the counts that wait: the parent reports them.
    fn renew_in_child(&self, _py: Python<'_>) {
        mem::forget(mem::take(&mut *self.reports.lock()));
    }
}
