//! The Python callables of a queue: handlers, error handler, and how they are called.

use super::types::item::Item;
use crate::gil;
use crate::python_calls::{self, log_error};
use drainq_core::batch::{Batch, Outcome};
use pyo3::prelude::*;

/// A callable, or an object with `consume(batch)` and perhaps `on_idle()`, `on_close()` and `on_abandoned(batch)`.
pub struct Handler {
    consume: Py<PyAny>,
    on_idle: Option<Py<PyAny>>,
    on_close: Option<Py<PyAny>>,
    on_abandoned: Option<Py<PyAny>>,
}

impl Handler {
    /// Reads the methods of `object` once, as `handler_parts` in `drainq/_calls.py` does. If there is an event loop, it
    /// runs the `async def` handlers of the queue with this number.
    pub fn new(name: &str, object: &Bound<'_, PyAny>, event_loop: Option<&Py<PyAny>>, number: u64) -> PyResult<Self> {
        let (consume, [on_idle, on_close, on_abandoned]) =
            python_calls::handler_parts(name, object, event_loop, number)?;
        Ok(Self { consume, on_idle, on_close, on_abandoned })
    }

    /// Whether it has `on_idle`.
    pub fn wants_idle(&self) -> bool {
        self.on_idle.is_some()
    }

    /// Returns a second reference to the same callables.
    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        let clone = |held: &Option<Py<PyAny>>| held.as_ref().map(|held| held.clone_ref(py));
        Self {
            consume: self.consume.clone_ref(py),
            on_idle: clone(&self.on_idle),
            on_close: clone(&self.on_close),
            on_abandoned: clone(&self.on_abandoned),
        }
    }

    /// Returns the held objects, to be shown to the garbage collector.
    pub fn held(&self) -> impl Iterator<Item = &Py<PyAny>> {
        std::iter::once(&self.consume).chain(&self.on_idle).chain(&self.on_close).chain(&self.on_abandoned)
    }

    /// Whether it has `on_close`.
    pub fn wants_close(&self) -> bool {
        self.on_close.is_some()
    }

    /// Calls `on_idle`, and logs its exception.
    pub fn idle(&self, py: Python<'_>) {
        notify(py, self.on_idle.as_ref(), "on_idle");
    }

    /// Calls `on_close`, and logs its exception.
    pub fn close(&self, py: Python<'_>) {
        notify(py, self.on_close.as_ref(), "on_close");
    }

    /// Calls `on_abandoned` with items that the queue gives up; returns whether it keeps them. Logs its exception.
    pub fn keeps(&self, py: Python<'_>, items: &mut Vec<Item>) -> bool {
        let Some(on_abandoned) = &self.on_abandoned else { return false };
        let called = Item::list(py, items).and_then(|batch| gil::call(on_abandoned.bind(py), [&batch]));
        called.and_then(|kept| kept.is_truthy()).unwrap_or_else(|error| {
            log_error(py, "on_abandoned raised", &python_calls::value(py, error));
            false
        })
    }

    /// Calls `consume` with a batch. Returns the numbers of items, or their weights, by outcome.
    pub fn call(
        &self,
        py: Python<'_>,
        Batch { items, size, .. }: &mut Batch<Item>,
        on_error: Option<&Py<PyAny>>,
        queue: &str,
    ) -> Vec<(Outcome, u64)> {
        let size = *size;
        let batch = match Item::list(py, items) {
            Ok(batch) => batch,
            Err(error) => {
                let message = format!("queue {queue:?} could not make a list of {size} items");
                log_error(py, &message, &python_calls::value(py, error));
                return vec![(Outcome::Failed, size)];
            }
        };
        let called = gil::call(self.consume.bind(py), [&batch]);
        match called.and_then(|answer| python_calls::check_answer("the handler", answer)) {
            Ok(()) => vec![(Outcome::Handled, size)],
            Err(error) => {
                let dead = report(py, on_error, &batch, size, error, queue).min(size);
                vec![(Outcome::DeadLettered, dead), (Outcome::Failed, size - dead)]
            }
        }
    }
}

fn notify(py: Python<'_>, callable: Option<&Py<PyAny>>, name: &str) {
    let Some(callable) = callable else { return };
    if let Err(error) = gil::call(callable.bind(py), []).and_then(|answer| python_calls::check_answer(name, answer)) {
        let error = python_calls::value(py, error);
        log_error(py, &format!("{name} raised"), &error);
    }
}

/// Calls the error handler with a batch that failed, or logs the error if there is none; returns how many of
/// the items went into a durable queue.
fn report(
    py: Python<'_>,
    on_error: Option<&Py<PyAny>>,
    batch: &Bound<'_, PyAny>,
    size: u64,
    error: PyErr,
    queue: &str,
) -> u64 {
    let error = python_calls::value(py, error);
    match on_error {
        Some(on_error) => python_calls::report_failure(on_error.bind(py), batch, &error).unwrap_or_else(|second| {
            let second = python_calls::value(py, second);
            log_error(py, &format!("a handler of queue {queue:?} raised"), &error);
            log_error(py, &format!("and so did the error handler of queue {queue:?}"), &second);
            0
        }),
        None => {
            log_error(py, &format!("a handler of queue {queue:?} raised on a batch of {size}"), &error);
            0
        }
    }
}
