//! Statistics as Python objects: `drainq/statistics.py` makes them from the counters of the core.

use crate::gil;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A class or function of the Python module that makes statistics, by its name. It is looked up at each call: a lock
/// around the first import would wait for a signal handler that asks for statistics while the module is imported.
pub struct Maker(&'static str);

pub static BATCH_QUEUE: Maker = Maker("batch_queue");
pub static MULTI_QUEUE: Maker = Maker("multi_queue");
pub static SET_QUEUE: Maker = Maker("SetQueueStats");
pub static SUB_QUEUE: Maker = Maker("SubQueueStats");

impl Maker {
    /// Makes statistics from counters, its positional arguments.
    pub fn make<'py, A>(&self, py: Python<'py>, counters: A) -> PyResult<Bound<'py, PyAny>>
    where
        A: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>>,
        PyErr: From<A::Error>,
    {
        gil::call_with(&py.import("drainq.statistics")?.getattr(self.0)?, &counters.into_pyobject(py)?)
    }
}
