//! Statistics as Python objects: `drainq/statistics.py` makes them from the counters of the core.

use crate::gil;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

/// A class or function of the Python module that makes statistics; looked up when the first are made.
pub struct Maker {
    name: &'static str,
    maker: PyOnceLock<Py<PyAny>>,
}

pub static BATCH_QUEUE: Maker = Maker::new("batch_queue");
pub static MULTI_QUEUE: Maker = Maker::new("multi_queue");
pub static SET_QUEUE: Maker = Maker::new("SetQueueStats");
pub static SUB_QUEUE: Maker = Maker::new("SubQueueStats");

impl Maker {
    const fn new(name: &'static str) -> Self {
        Self { name, maker: PyOnceLock::new() }
    }

    /// Makes statistics from counters, its positional arguments.
    pub fn make<'py, A>(&self, py: Python<'py>, counters: A) -> PyResult<Bound<'py, PyAny>>
    where
        A: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>>,
        PyErr: From<A::Error>,
    {
        gil::call_with(self.maker.import(py, "drainq.statistics", self.name)?, &counters.into_pyobject(py)?)
    }
}
