//! Statistics as Python objects: `drainq/statistics.py` makes them from the counters of the core.

use crate::gil;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Calls the class or function `maker` of the Python module with counters.
pub fn made<'py, A>(py: Python<'py>, maker: &str, counters: A) -> PyResult<Bound<'py, PyAny>>
where
    A: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>>,
    PyErr: From<A::Error>,
{
    gil::call_with(&py.import("drainq.statistics")?.getattr(maker)?, &counters.into_pyobject(py)?)
}
