//! `stream()` and `stream_async()`: the items of a queue until its shutdown.

use super::awaitable::QueueAwaitable;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

/// A queue whose items are taken one by one.
pub trait Streamed: Send + Sync {
    /// Takes the next item, and waits for one; `None` once the queue is shut down and nothing can be got any more.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>>;

    /// Makes the coroutine that takes the next item, or ends an `async for`.
    fn next_async(&self, py: Python<'_>) -> QueueAwaitable;

    /// Shows the queue to the garbage collector.
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError>;
}

/// The items of a queue, for a thread.
#[pyclass(frozen, module = "drainq")]
pub struct ItemStream(pub Box<dyn Streamed>);

#[pymethods]
impl ItemStream {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.0.next(py)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.traverse(&visit)
    }
}

/// The items of a queue, for a task.
#[pyclass(frozen, module = "drainq")]
pub struct AsyncItemStream(pub Box<dyn Streamed>);

#[pymethods]
impl AsyncItemStream {
    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__(&self, py: Python<'_>) -> QueueAwaitable {
        self.0.next_async(py)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.traverse(&visit)
    }
}
