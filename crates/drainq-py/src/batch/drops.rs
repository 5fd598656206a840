//! Telling the user of items that will not be handled: each one is told of, none more often than
//! once a second and reason.
//!
//! What comes within a second of a report waits. A thread of its own then tells it, unless something
//! else did before: the next refusal, a flush, a shutdown, or the queue's end.
//!
//! # Invariants
//! 1. The counts told and the counts that wait add up to the counts added.
//! 2. `state` is locked with the GIL held, and no Python code runs meanwhile.
//! 3. While counts wait there is a thread that will tell them, unless none could be started: then they
//!    were told at once.

use super::exit;
use crate::calls::{self, log, log_error};
use crate::fork::Generation;
use crate::{gil, thread};
use drainq_core::space::Space;
use drainq_core::sync::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// No reason is reported more often than this.
const INTERVAL: Duration = Duration::from_secs(1);

/// Why items are not handled, by the name that the user is told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// There was no room.
    Full,
    /// The queue was shutting down.
    Closed,
    /// There is no handler for the type.
    Unrouted,
    /// The queue's shutdown ran out of time.
    Abandoned,
}

impl Reason {
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

#[derive(Clone, Copy, Default)]
struct Pending {
    count: u64,
    last: Option<Instant>,
}

#[derive(Default)]
struct State {
    pending: [Pending; Reason::ALL.len()],
    /// What wakes the thread that will tell what waits, while there is one.
    reporter: Option<Arc<Space>>,
}

/// What was not yet told.
pub struct Drops {
    queue: String,
    on_drop: Option<Py<PyAny>>,
    state: Mutex<State>,
}

impl Drops {
    /// Nothing happened yet; `on_drop` will hear of it.
    pub fn new(queue: &str, on_drop: Option<Py<PyAny>>) -> Self {
        Self { queue: queue.to_owned(), on_drop, state: Mutex::default() }
    }

    /// Adds `count` items, and tells them unless a report was made just now.
    pub fn add(self: &Arc<Self>, py: Python<'_>, reason: Reason, count: u64) {
        let due = {
            let pending = &mut self.state.lock().pending[reason as usize];
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

    /// Tells what waits, and ends the thread that would do so.
    pub fn flush(&self, py: Python<'_>) {
        let (counts, reporter) = {
            let mut state = self.state.lock();
            let counts = Reason::ALL.map(|reason| {
                let pending = &mut state.pending[reason as usize];
                if pending.count > 0 {
                    pending.last = Some(Instant::now());
                }
                mem::take(&mut pending.count)
            });
            (counts, state.reporter.clone())
        };
        for (reason, count) in Reason::ALL.into_iter().zip(counts) {
            self.report(py, reason, count);
        }
        if let Some(reporter) = reporter {
            reporter.call_all();
        }
    }

    /// Whether a thread is there that may call `on_drop`.
    pub fn has_reporter(&self) -> bool {
        self.state.lock().reporter.is_some()
    }

    /// In the child of a fork: what happened in the parent is the parent's to tell.
    pub fn forget(&self) {
        mem::forget(mem::take(&mut *self.state.lock()));
    }

    fn start_reporter(self: &Arc<Self>, py: Python<'_>) -> PyResult<()> {
        let wake = Arc::new(Space::new());
        self.state.lock().reporter = Some(wake.clone());
        let drops = self.clone();
        let started =
            thread::start(py, &format!("drainq-{}-drops", self.queue), move |py| drops.report_later(py, &wake));
        if started.is_err() {
            self.state.lock().reporter = None;
        }
        started.map(drop)
    }

    /// The life of the thread that tells what waits.
    fn report_later(&self, py: Python<'_>, wake: &Space) {
        let begun_in = Generation::now();
        loop {
            gil::released(py, || {
                let mut line = wake.enlist();
                line.wait(INTERVAL);
                line.served();
            });
            self.flush(py);
            if begun_in.is_past() {
                exit::leave_child(py);
            }
            let mut state = self.state.lock();
            if state.pending.iter().all(|pending| pending.count == 0) {
                state.reporter = None;
                return;
            }
        }
    }

    fn report(&self, py: Python<'_>, reason: Reason, count: u64) {
        if count == 0 {
            return;
        }
        log(py, "warning", &format!("queue {:?}: {count} items not handled: {}", self.queue, reason.name()));
        let Some(on_drop) = &self.on_drop else { return };
        let answer = count.into_pyobject(py).map_err(PyErr::from).and_then(|count| {
            let reason = PyString::intern(py, reason.name());
            gil::call(on_drop.bind(py), [&reason, &count])
        });
        match answer {
            Ok(answer) => gil::let_go(answer),
            Err(error) => {
                let error = calls::value(py, error);
                log_error(py, "on_drop raised", &error);
                gil::let_go(error.into_any());
            }
        }
    }

    /// The callable, for the garbage collector.
    pub fn held(&self) -> Option<&Py<PyAny>> {
        self.on_drop.as_ref()
    }
}
