//! The check of what is handed over to be called: it lives in `drainq/callables.py`, for Python code uses it too.

use crate::{errors, gil};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};

/// Refuses what cannot be called with these arguments, or would do nothing if it were.
pub fn check(name: &str, value: &Bound<'_, PyAny>, arguments: &[&str]) -> PyResult<()> {
    let py = value.py();
    let fixed = [name.into_pyobject(py)?.into_any(), value.clone()];
    let names = arguments.iter().map(|argument| Ok(argument.into_pyobject(py)?.into_any()));
    let all: Vec<_> = fixed.into_iter().map(Ok).chain(names).collect::<PyResult<_>>()?;
    gil::call_with(&py.import("drainq.callables")?.getattr("check_callable")?, &PyTuple::new(py, all)?).map(drop)
}

/// The same where nothing may stand in its place.
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

/// Takes what a call of `callable` returned, and refuses what says that nothing of it has run: a coroutine or
/// a generator, of an async function behind a lambda, say, which no check at the door can see.
pub fn check_answer(callable: &str, answer: Bound<'_, PyAny>) -> PyResult<()> {
    static LAZY: [(PyOnceLock<Py<PyType>>, &str); 3] = [
        (PyOnceLock::new(), "CoroutineType"),
        (PyOnceLock::new(), "GeneratorType"),
        (PyOnceLock::new(), "AsyncGeneratorType"),
    ];
    let py = answer.py();
    let mut refusal = None;
    if !answer.is_none() {
        let class = answer.get_type();
        for (lazy, name) in &LAZY {
            if class.is(lazy.import(py, "types", name)?) {
                refusal = Some(errors::bad_type(format!(
                    "{callable} returned {}: nothing of it has run, and nobody will wait for it or iterate over it. \
                     It must be a plain function that has done its work when it returns",
                    errors::shown(&answer)?
                )));
                // Said here already; Python need not warn of it as well.
                let _ = gil::call_method(&answer, "close", []);
            }
        }
    }
    gil::let_go(answer);
    refusal.map_or(Ok(()), Err)
}
