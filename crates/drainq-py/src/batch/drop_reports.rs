//! The reports of items that are not handled: one warning in the log and one call of `on_drop` for each
//! reason, at most once a second. Every item is in one report.
//!
//! A count that is added within a second of a report waits. A thread of its own reports it, unless
//! something else does before: the next count of the same reason, a flush, a shutdown, or the queue's end.
//!
//! # Invariants
//! 1. The counts reported and the counts that wait add up to the counts added.
//! 2. `reports` is locked with the GIL held, and no Python code runs meanwhile.
//! 3. While counts wait there is a thread that will report them, unless no thread could be started: then
//!    they were reported at once.

use super::exit;
use crate::calls::{self, log, log_error};
use crate::fork::Generation;
use crate::{callables, gil, thread};
use drainq_core::sync::Mutex;
use drainq_core::wait::waiters::Waiters;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// No reason is reported more often than this.
const INTERVAL: Duration = Duration::from_secs(1);

/// Why items are not handled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// There was no room.
    Full,
    /// The queue was shutting down.
    Closed,
    /// There is no handler for the type.
    Unrouted,
    /// The queue's shutdown ran out of time.
    Abandoned,
}

impl DropReason {
    const ALL: [Self; 4] = [Self::Full, Self::Closed, Self::Unrouted, Self::Abandoned];

    fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Closed => "closed",
            Self::Unrouted => "unrouted",
            Self::Abandoned => "abandoned",
        }
    }
}

/// The count of one reason.
#[derive(Clone, Copy, Default)]
struct Pending {
    /// Items that wait for a report.
    count: u64,
    /// When the last report was made.
    last: Option<Instant>,
}

#[derive(Default)]
struct Reports {
    pending: [Pending; DropReason::ALL.len()],
    /// Wakes the thread that will report the counts that wait, while there is such a thread.
    reporter: Option<Arc<Waiters>>,
}

/// The counts of items that are not handled, reported and waiting.
pub struct DropReports {
    queue: String,
    on_drop: Option<Py<PyAny>>,
    reports: Mutex<Reports>,
}

impl DropReports {
    /// Makes a list without counts. `on_drop` is called with each report.
    pub fn new(queue: &str, on_drop: Option<Py<PyAny>>) -> Self {
        Self { queue: queue.to_owned(), on_drop, reports: Mutex::default() }
    }

    /// Adds `count` items, and reports them unless the last report was less than a second ago.
    pub fn add(self: &Arc<Self>, py: Python<'_>, reason: DropReason, count: u64) {
        let due = {
            let pending = &mut self.reports.lock().pending[reason as usize];
            pending.count += count;
            if exit::is_over() || pending.last.is_none_or(|last| last.elapsed() >= INTERVAL) {
                pending.last = Some(Instant::now());
                mem::take(&mut pending.count)
            } else {
                0
            }
        };
        if due > 0 {
            self.report(py, reason, due);
        } else if count > 0 && !self.has_reporter() && self.start_reporter(py).is_err() {
            self.flush(py);
        }
    }

    /// Reports the counts that wait, and ends the thread that would do so.
    pub fn flush(&self, py: Python<'_>) {
        let (counts, reporter) = {
            let mut reports = self.reports.lock();
            let counts = DropReason::ALL.map(|reason| {
                let pending = &mut reports.pending[reason as usize];
                if pending.count > 0 {
                    pending.last = Some(Instant::now());
                }
                mem::take(&mut pending.count)
            });
            (counts, reports.reporter.clone())
        };
        for (reason, count) in DropReason::ALL.into_iter().zip(counts) {
            self.report(py, reason, count);
        }
        if let Some(reporter) = reporter {
            reporter.notify_all();
        }
    }

    /// Whether a thread is there that may call `on_drop`.
    pub fn has_reporter(&self) -> bool {
        self.reports.lock().reporter.is_some()
    }

    /// Removes the counts that wait, in the child of a fork: the parent reports them.
    pub fn forget(&self) {
        mem::forget(mem::take(&mut *self.reports.lock()));
    }

    fn start_reporter(self: &Arc<Self>, py: Python<'_>) -> PyResult<()> {
        let wake = Arc::new(Waiters::new());
        self.reports.lock().reporter = Some(wake.clone());
        let drops = self.clone();
        let started =
            thread::start(py, &format!("drainq-{}-drops", self.queue), move |py| drops.report_later(py, &wake));
        if started.is_err() {
            self.reports.lock().reporter = None;
        }
        started.map(drop)
    }

    /// Runs the thread that reports the counts that wait: once a second, until there are none.
    fn report_later(&self, py: Python<'_>, wake: &Waiters) {
        let begun_in = Generation::now();
        loop {
            gil::released(py, || {
                let mut waiter = wake.enter();
                waiter.wait(INTERVAL);
                waiter.served();
            });
            self.flush(py);
            if begun_in.is_past() {
                exit::leave_child(py);
            }
            let mut reports = self.reports.lock();
            if reports.pending.iter().all(|pending| pending.count == 0) {
                reports.reporter = None;
                return;
            }
        }
    }

    fn report(&self, py: Python<'_>, reason: DropReason, count: u64) {
        if count == 0 {
            return;
        }
        log(py, "warning", &format!("queue {:?}: {count} items not handled: {}", self.queue, reason.name()));
        let Some(on_drop) = &self.on_drop else { return };
        let answer = count.into_pyobject(py).map_err(PyErr::from).and_then(|count| {
            let reason = PyString::intern(py, reason.name());
            gil::call(on_drop.bind(py), [&reason, &count])
        });
        if let Err(error) = answer.and_then(|answer| callables::check_answer("on_drop", answer)) {
            let error = calls::value(py, error);
            log_error(py, "on_drop raised", &error);
            gil::let_go(error.into_any());
        }
    }

    /// Returns the callable, to be shown to the garbage collector.
    pub fn held(&self) -> Option<&Py<PyAny>> {
        self.on_drop.as_ref()
    }
}
