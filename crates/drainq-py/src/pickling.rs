//! The bodies of `__reduce__`, which `pickle` and `copy` both call: they pickle values, and refuse other objects.
//!
//! 1. A value is sent as the call that makes it, so the receiver runs every check of a constructor.
//! 2. A refusal says why, and what to send instead. The sentence is in `drainq/pickling.py`, because Python code
//!    uses it too.

use crate::gil::PythonFunction;
use pyo3::PyClass;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

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

/// Refuses to pickle `value`. The error says `why`, and what to send `instead`.
pub fn refuse<T: PyClass>(value: &Bound<'_, T>, why: &str, instead: &str) -> PyResult<()> {
    static REFUSE: PythonFunction = PythonFunction::of("drainq.pickling", "refuse");
    REFUSE.call(value.py(), (value, why, instead)).map(drop)
}
