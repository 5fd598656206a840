//! Telling the user of items that will not be handled, at most once a second and reason.

use super::handler::{log, log_error};
use drainq_core::sync::Mutex;
use pyo3::prelude::*;
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

/// What was not yet reported.
pub struct Drops {
    on_drop: Option<Py<PyAny>>,
    pending: Mutex<[Pending; Reason::ALL.len()]>,
}

impl Drops {
    /// Nothing happened yet; `on_drop` will hear of it.
    pub fn new(on_drop: Option<Py<PyAny>>) -> Self {
        Self { on_drop, pending: Mutex::default() }
    }

    /// Adds `count` items, and reports them unless a report was made just now.
    pub fn add(&self, py: Python<'_>, queue: &str, reason: Reason, count: u64) {
        let due = {
            let pending = &mut self.pending.lock()[reason as usize];
            pending.count += count;
            if pending.last.is_none_or(|last| last.elapsed() >= INTERVAL) {
                pending.last = Some(Instant::now());
                std::mem::take(&mut pending.count)
            } else {
                0
            }
        };
        self.report(py, queue, reason, due);
    }

    /// Reports what is still unreported.
    pub fn flush(&self, py: Python<'_>, queue: &str) {
        for reason in Reason::ALL {
            let due = std::mem::take(&mut self.pending.lock()[reason as usize].count);
            self.report(py, queue, reason, due);
        }
    }

    fn report(&self, py: Python<'_>, queue: &str, reason: Reason, count: u64) {
        if count == 0 {
            return;
        }
        log(py, "warning", &format!("queue {queue:?}: {count} items not handled: {}", reason.name()));
        if let Some(on_drop) = &self.on_drop
            && let Err(error) = on_drop.call1(py, (reason.name(), count))
        {
            log_error(py, "on_drop raised", &error);
        }
    }

    /// The callable, for the garbage collector.
    pub fn held(&self) -> Option<&Py<PyAny>> {
        self.on_drop.as_ref()
    }
}
