//! The check of what is handed over to be called: it lives in `drainq/callables.py`, for Python code uses it too.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Refuses what cannot be called with these arguments, or would do nothing if it were.
pub fn check(name: &str, value: &Bound<'_, PyAny>, arguments: &[&str]) -> PyResult<()> {
    let py = value.py();
    let fixed = [name.into_pyobject(py)?.into_any(), value.clone()];
    let names = arguments.iter().map(|argument| Ok(argument.into_pyobject(py)?.into_any()));
    let all: Vec<_> = fixed.into_iter().map(Ok).chain(names).collect::<PyResult<_>>()?;
    py.import("drainq.callables")?.call_method1("check_callable", PyTuple::new(py, all)?).map(drop)
}

/// The same where nothing may stand in its place.
pub fn check_if_given(name: &str, value: Option<&Bound<'_, PyAny>>, arguments: &[&str]) -> PyResult<()> {
    match value {
        Some(value) if !value.is_callable() => Err(crate::errors::bad_type(format!(
            "{name} must be a callable that takes ({}), or None, got {}",
            arguments.join(", "),
            crate::errors::shown(value)?
        ))),
        Some(value) => check(name, value, arguments),
        None => Ok(()),
    }
}
