//! The reports of items that are not handled: one warning in the log and one call of `on_drop` for each
//! reason, at most once a second (`drop_counts.rs` in the core). Every item is in one report.
//!
//! A count that is added within a second of a report waits for the next count of the same reason after that second, a
//! flush, a shutdown, the exit, or an alarm of drainq's timer. The queue may end in a finaliser, which runs on any
//! thread and under any lock. So the end of a queue reports nothing: the alarm keeps the counts alive.
//!
//! # Invariants
//! 1. Each count that the core's `DropCounts` returns is reported once.
//! 2. No Python code runs while `reports` is locked.
//! 3. While counts wait there is one alarm. If the process ends or no alarm can be set, they are reported at once.
//! 4. A report is made by the timer, by a drain thread, or on a thread that called the queue: never by a finaliser.

use super::interpreter_exit::{self, Live};
use crate::fork::{self, Renew};
use crate::gil;
use crate::python_calls;
use drainq_core::batch::drop_counts::{DropCounts, DropReason, INTERVAL};
use drainq_core::sync::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyCFunction;
use std::mem;
use std::sync::{Arc, Weak};
use std::time::Instant;

#[derive(Default)]
struct Reports {
    counts: DropCounts,
    /// The timer's alarm that reports the counts that wait.
    alarm: Option<Py<PyAny>>,
}

/// The counts of items that are not handled, reported and waiting.
pub struct DropReports {
    queue: String,
    on_drop: Option<Py<PyAny>>,
    reports: Mutex<Reports>,
}

impl DropReports {
    /// Makes an empty list of counts. `on_drop` is called with each report.
    pub fn new(queue: &str, on_drop: Option<Py<PyAny>>) -> Arc<Self> {
        let drops = Arc::new(Self { queue: queue.to_owned(), on_drop, reports: Mutex::default() });
        interpreter_exit::register(Arc::downgrade(&drops) as Weak<dyn Live>);
        fork::register(Arc::downgrade(&drops) as Weak<dyn Renew>);
        drops
    }

    /// Adds `count` items, and reports them unless the last report was less than a second ago.
    pub fn add(self: &Arc<Self>, py: Python<'_>, reason: DropReason, count: u64) {
        let (due, is_told_later) = {
            let mut reports = self.reports.lock();
            let due = reports.counts.add(reason, count, Instant::now());
            (due, reports.alarm.is_some() || !reports.counts.wait())
        };
        if let Some(due) = due {
            self.report(py, reason, due);
        } else if interpreter_exit::is_over() || (!is_told_later && self.set_alarm(py).is_err()) {
            self.flush(py);
        }
    }

    /// Reports the counts that wait.
    pub fn flush(&self, py: Python<'_>) {
        let (waiting, alarm) = {
            let mut reports = self.reports.lock();
            (reports.counts.take_all(Instant::now()), reports.alarm.take())
        };
        if let Some(alarm) = alarm
            && let Err(error) = gil::call_method(alarm.bind(py), "cancel", [])
        {
            python_calls::report_unraised(py, error);
        }
        for (reason, count) in waiting {
            self.report(py, reason, count);
        }
    }

    /// Whether counts wait: a thread of the timer will call `on_drop`.
    pub fn wait(&self) -> bool {
        self.reports.lock().counts.wait()
    }

    fn set_alarm(self: &Arc<Self>, py: Python<'_>) -> PyResult<()> {
        let drops = self.clone();
        let ring = PyCFunction::new_closure(py, None, None, move |arguments, _| drops.flush(arguments.py()))?;
        let alarm = python_calls::LATER.call(py, (INTERVAL.as_secs_f64(), ring))?.unbind();
        // Another thread may have set one meanwhile: one is enough.
        let surplus = {
            let reports = &mut *self.reports.lock();
            if reports.alarm.is_some() { Some(alarm) } else { reports.alarm.replace(alarm) }
        };
        surplus.map_or(Ok(()), |alarm| gil::call_method(alarm.bind(py), "cancel", []).map(drop))
    }

    fn report(&self, py: Python<'_>, reason: DropReason, count: u64) {
        let but = if reason == DropReason::Abandoned { "; calls that run on may still handle some" } else { "" };
        let message = format!("queue {:?}: {count} items not handled: {}{but}", self.queue, reason.name());
        if let Err(error) = python_calls::REPORT_DROPS.call(py, (message, &self.on_drop, reason.name(), count)) {
            python_calls::report_unraised(py, error);
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

    fn end_at_exit(&self, py: Python<'_>) -> PyResult<()> {
        self.flush(py);
        Ok(())
    }
}

impl Renew for DropReports {
    /// Removes the counts that wait: the parent reports them.
    fn renew_in_child(&self, _py: Python<'_>) {
        mem::forget(mem::take(&mut *self.reports.lock()));
    }
}
