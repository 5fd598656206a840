//! The threads that this module starts: daemon `threading.Thread`s with a native body.

use crate::python_calls;
use drainq_core::sync::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};
use std::sync::Arc;

/// Starts a daemon thread of this name that runs `body` once.
///
/// If the thread cannot start, `body` is dropped, even if the caller keeps the error and thereby the target.
pub fn start(py: Python<'_>, name: &str, body: impl FnOnce(Python<'_>) + Send + 'static) -> PyResult<Py<PyAny>> {
    let body = Arc::new(Mutex::new(Some(body)));
    let handed_over = body.clone();
    let target =
        PyCFunction::new_closure(py, None, None, move |args: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
            let body = handed_over.lock().take();
            if let Some(body) = body {
                body(args.py());
            }
        })?;
    let started = python_calls::start_thread(py, name, &target);
    if started.is_err() {
        let never_run = body.lock().take();
        drop(never_run); // outside the lock, because it may run Python code
    }
    started
}
