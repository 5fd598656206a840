//! `stream()` and `stream_async()`: the items of a queue until its shutdown.

use super::awaitable::QueueAwaitable;
use crate::errors;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

/// The result of a try to take.
pub enum Taken<T> {
    /// The taken value.
    Got(T),
    /// There is no item now.
    Empty,
    /// The queue was shut down, and nothing is left.
    ShutDown,
}

impl<T> Taken<T> {
    /// Returns the item; `None` if there is none now, and the exception of `shut_down` if there will never be one.
    #[inline]
    pub fn or_wait(self, shut_down: impl FnOnce() -> PyErr) -> PyResult<Option<T>> {
        match self {
            Self::Got(taken) => Ok(Some(taken)),
            Self::Empty => Ok(None),
            Self::ShutDown => Err(shut_down()),
        }
    }

    /// Returns the result for a stream: its inner `None` is the end.
    pub fn or_end(self) -> Option<Option<T>> {
        match self {
            Self::Got(taken) => Some(Some(taken)),
            Self::Empty => None,
            Self::ShutDown => Some(None),
        }
    }
}

/// The effect of a shutdown on a coroutine that gets an item.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AtShutdown {
    /// Raises `ShutDown`.
    Raise,
    /// Ends the `async for`.
    StopIteration,
}

impl AtShutdown {
    /// Makes the exception of a coroutine; `shut_down` makes that of the queue.
    pub fn error(self, shut_down: impl FnOnce() -> PyErr) -> PyErr {
        match self {
            Self::Raise => shut_down(),
            Self::StopIteration => errors::stop_async_iteration(),
        }
    }
}

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
