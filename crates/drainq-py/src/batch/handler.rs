//! The Python callables of a queue: handlers, error handler, and how they are called.

use super::item::Item;
use crate::{callables, errors};
use drainq_core::batch::{Batch, Outcome};
use pyo3::prelude::*;
use pyo3::types::PyList;

/// A callable, or an object with `consume(batch)` and perhaps `on_idle()`.
pub struct Handler {
    consume: Py<PyAny>,
    on_idle: Option<Py<PyAny>>,
}

impl Handler {
    /// Looks at `object` once; what it may be is said in the error. What could be called but would
    /// do nothing is refused here, for later nobody would notice.
    pub fn new(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let method = |name: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
            Ok(object.getattr_opt(name)?.filter(|found| found.is_callable()))
        };
        let consume = match method("consume")? {
            Some(consume) => consume,
            None if object.is_callable() => object.clone(),
            None => {
                return Err(errors::bad_type(format!(
                    "{name} must be a callable that takes a list, or have a method consume(batch); got {}",
                    errors::shown(object)?
                )));
            }
        };
        let on_idle = method("on_idle")?;
        let part = |method: &str| format!("{name}.{method}");
        callables::check(&if consume.is(object) { name.into() } else { part("consume") }, &consume, &["batch"])?;
        callables::check_if_given(&part("on_idle"), on_idle.as_ref(), &[])?;
        Ok(Self { consume: consume.unbind(), on_idle: on_idle.map(Bound::unbind) })
    }

    /// Whether it wants to hear of idle passes.
    pub fn watches(&self) -> bool {
        self.on_idle.is_some()
    }

    /// A second reference to the same callables.
    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        Self {
            consume: self.consume.clone_ref(py),
            on_idle: self.on_idle.as_ref().map(|on_idle| on_idle.clone_ref(py)),
        }
    }

    /// The held objects, for the garbage collector.
    pub fn held(&self) -> impl Iterator<Item = &Py<PyAny>> {
        std::iter::once(&self.consume).chain(&self.on_idle)
    }

    /// Calls `on_idle`; what it raises is logged.
    pub fn idle(&self, py: Python<'_>) {
        if let Some(on_idle) = &self.on_idle
            && let Err(error) = on_idle.call0(py)
        {
            log_error(py, "on_idle raised", &error);
        }
    }

    /// Hands a batch over, and says what became of how many items (or of what weight).
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
                log_error(py, &format!("queue {queue:?} could not make a list of {size} items"), &error);
                return vec![(Outcome::Failed, size)];
            }
        };
        match self.consume.call1(py, (&batch,)) {
            Ok(_) => vec![(Outcome::Handled, size)],
            Err(error) => {
                let dead = match on_error {
                    Some(on_error) => report(py, on_error, &batch, &error, queue).min(size),
                    None => {
                        log_error(py, &format!("a handler of queue {queue:?} raised on a batch of {size}"), &error);
                        0
                    }
                };
                vec![(Outcome::DeadLettered, dead), (Outcome::Failed, size - dead)]
            }
        }
    }
}

/// Calls the error handler; returns how many items it put into a durable queue, which only
/// one with a true attribute `dead_letters` is asked for.
fn report(py: Python<'_>, on_error: &Py<PyAny>, batch: &Bound<'_, PyList>, error: &PyErr, queue: &str) -> u64 {
    let on_error = on_error.bind(py);
    let counts = on_error.getattr("dead_letters").and_then(|flag| flag.is_truthy()).unwrap_or(false);
    let called = on_error.call1((batch, error.value(py)));
    let count = called.and_then(|count| if counts { count.extract::<u64>() } else { Ok(0) });
    count.unwrap_or_else(|second| {
        log_error(py, &format!("a handler of queue {queue:?} raised"), error);
        log_error(py, &format!("and so did the error handler of queue {queue:?}"), &second);
        0
    })
}

/// Writes to the logger `drainq` at `level`; nothing that goes wrong there is raised.
pub fn log(py: Python<'_>, level: &str, message: &str) {
    let logged = py
        .import("logging")
        .and_then(|logging| logging.call_method1("getLogger", ("drainq",)))
        .and_then(|logger| logger.call_method1(level, ("%s", message)));
    if let Err(error) = logged {
        error.write_unraisable(py, None);
    }
}

/// As [`log`], with an exception and its traceback.
pub fn log_error(py: Python<'_>, message: &str, error: &PyErr) {
    let logged = py.import("logging").and_then(|logging| {
        let logger = logging.call_method1("getLogger", ("drainq",))?;
        let details = pyo3::types::PyDict::new(py);
        details.set_item("exc_info", error.value(py))?;
        logger.call_method("error", ("%s", message), Some(&details))
    });
    if let Err(error) = logged {
        error.write_unraisable(py, None);
    }
}
