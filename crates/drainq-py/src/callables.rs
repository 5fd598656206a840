//! Validates user callables, and the results of their calls.
//!
//! Both are written in `drainq/callables.py`, because Python code uses them too.

use crate::{errors, gil, python_calls};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Refuses an object that cannot be called with these arguments, or whose call would do nothing.
pub fn check(name: &str, value: &Bound<'_, PyAny>, arguments: &[&str]) -> PyResult<()> {
    let py = value.py();
    let fixed = [name.into_pyobject(py)?.into_any(), value.clone()];
    let names = arguments.iter().map(|argument| Ok(argument.into_pyobject(py)?.into_any()));
    let all: Vec<_> = fixed.into_iter().map(Ok).chain(names).collect::<PyResult<_>>()?;
    gil::call_with(&py.import("drainq.callables")?.getattr("check_callable")?, &PyTuple::new(py, all)?).map(drop)
}

/// Refuses the same where a callable may be given or not.
pub fn check_if_given(name: &str, value: Option<&Bound<'_, PyAny>>, arguments: &[&str]) -> PyResult<()> {
    match value {
        Some(value) if !value.is_callable() => Err(errors::bad_type(format!(
            "{name} must be a callable that takes ({}), or None, got {}",
            arguments.join(", "),
            errors::shown(value)?
        ))),
        Some(value) => check(name, value, arguments),
        None => Ok(()),
    }
}

/// Refuses the result of a call if none of its code has run, such as the coroutine of an async function behind a
/// lambda, which no check before the call can find.
pub fn check_answer(callable: &str, answer: Bound<'_, PyAny>) -> PyResult<()> {
    if answer.is_none() { Ok(()) } else { python_calls::check_answer(callable, &answer) }
}
