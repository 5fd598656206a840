//! The bodies of `__reduce__`, which `pickle` and `copy` both call: they pickle values, and refuse other objects.
//!
//! 1. A value is sent as the call that makes it, so the receiver runs every check of a constructor.
//! 2. A refusal says why, and what to send instead. The sentence lives in `drainq/pickling.py`, for Python code uses
//!    it too.

use crate::gil;
use pyo3::PyClass;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

/// A callable, and the arguments with which it makes an equal object.
pub type Recipe<'py> = (Bound<'py, PyAny>, Bound<'py, PyTuple>);

/// Describes a value by the method of its class that makes it, and the arguments.
pub fn made_by<'py, T, A>(value: &Bound<'py, T>, method: &str, arguments: A) -> PyResult<Recipe<'py>>
where
    T: PyClass,
    A: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>>,
    PyErr: From<A::Error>,
{
    Ok((value.as_any().get_type().getattr(method)?, arguments.into_pyobject(value.py())?))
}

/// Refuses, with `why`, and what to send `instead`.
pub fn refuse<T: PyClass>(value: &Bound<'_, T>, why: &str, instead: &str) -> PyResult<()> {
    let py = value.py();
    let (why, instead) = (PyString::new(py, why), PyString::new(py, instead));
    gil::call_method(py.import("drainq.pickling")?.as_any(), "refuse", [value.as_any(), why.as_any(), instead.as_any()])
        .map(drop)
}
