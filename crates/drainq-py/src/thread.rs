//! The threads that this module starts: daemon `threading.Thread`s with a native body.

use crate::fork::Generation;
use crate::{ctrl_c, python_calls};
use drainq_core::sync::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};

/// Starts a daemon thread of this name that runs `body` once.
///
/// Where a signal handler forks meanwhile, the thread is the parent's: in the child this raises DrainqError, and the
/// caller touches no value of a `ForkCell` any more.
pub fn start(py: Python<'_>, name: &str, body: impl FnOnce(Python<'_>) + Send + 'static) -> PyResult<Py<PyAny>> {
    let body = Mutex::new(Some(body));
    let target =
        PyCFunction::new_closure(py, None, None, move |args: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
            let body = body.lock().take();
            if let Some(body) = body {
                body(args.py());
            }
        })?;
    let begun_in = Generation::now();
    let thread = python_calls::start_thread(py, name, &target)?;
    if begun_in.is_past() { Err(ctrl_c::forked(py)) } else { Ok(thread) }
}
