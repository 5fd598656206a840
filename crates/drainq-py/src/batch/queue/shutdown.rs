//! `shutdown`, the ends of `with` blocks, and the end of several queues.

use super::BatchQueue;
use crate::arguments;
use crate::batch::coroutines;
use crate::batch::shared_scheduler;
use crate::deadline::Deadline;
use crate::errors;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

impl BatchQueue {
    /// Raises ShutDown if the queue was shut down before the `with` block.
    fn refuse_if_shut_down(&self, py: Python<'_>) -> PyResult<()> {
        if self.shared().queue().is_running() {
            return Ok(());
        }
        let name = self.shared().name();
        Err(errors::SHUT_DOWN
            .error(py, format!("queue {name:?} was shut down and takes no more items; make a new one to enter")))
    }
}

#[pymethods]
impl BatchQueue {
    /// Accept no more items, handle the queued ones, and end the drain threads.
    ///
    /// Producers that wait for room are released. A second call waits for the first.
    ///
    /// Args:
    ///     timeout: seconds to wait; None: the configuration's ``shutdown_timeout``. Then the items that were not
    ///         handled, including the batch of a handler that hangs, are counted as ``abandoned`` and reported.
    /// Returns:
    ///     True if everything accepted was handed to a handler, or counted as failed or
    ///     unrouted; False if something was abandoned.
    /// Raises:
    ///     WouldDeadlock: called from a handler of this queue.
    ///
    /// Example:
    ///     >>> from drainq import BatchQueue
    ///     >>> queue = BatchQueue("hits", consumer=len)
    ///     >>> queue.produce_many(range(100)), queue.shutdown(timeout=60), queue.running
    ///     (100, True, False)
    #[pyo3(signature = (timeout=None))]
    pub fn shutdown(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<bool> {
        let timeout = timeout.or(self.shared().shutdown_timeout);
        let deadline = Deadline::after("timeout", timeout)?;
        self.refuse_in_handler(py, "shutdown")?;
        self.shared().end(py, deadline)
    }

    /// Shut down as ``shutdown`` does, from a coroutine. The end of the last handler call resumes it.
    ///
    /// If the wait is cancelled, the queue stays closed, its threads handle what is queued, and nothing is abandoned;
    /// another call waits for that.
    ///
    /// Args:
    ///     timeout: as ``shutdown``.
    /// Returns:
    ///     The result of ``shutdown``, when awaited.
    /// Raises:
    ///     WouldDeadlock: awaited in a handler of this queue.
    #[pyo3(signature = (timeout=None))]
    fn shutdown_async<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        coroutines::end(slf.as_any(), slf.get().shared().number(), "shutdown", timeout)
    }

    fn __aenter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().refuse_if_shut_down(slf.py())?;
        coroutines::entered(slf.as_any())
    }

    #[pyo3(signature = (*_exception))]
    fn __aexit__<'py>(slf: &Bound<'py, Self>, _exception: &Bound<'_, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        coroutines::end(slf.as_any(), slf.get().shared().number(), "_leave", None)
    }

    /// Shuts the queue down for ``async with``, which hides no exception.
    fn _leave(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.shutdown(py, timeout).map(drop)
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().refuse_if_shut_down(slf.py())?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.shutdown(py, None).map(drop)
    }
}

/// Shuts several queues down, and then ends the shared schedulers; true if nothing was abandoned.
///
/// `timeout` is in seconds, for all of them together; None: each queue's own setting.
#[pyfunction]
pub fn end_queues(
    py: Python<'_>,
    queues: Vec<Py<BatchQueue>>,
    #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
) -> PyResult<bool> {
    let queues: Vec<_> = queues.iter().map(|queue| queue.get().shared().clone()).collect();
    let common = Deadline::after("timeout", timeout)?;
    if let Some(shared) = queues.iter().find(|shared| shared.queue().is_draining_here()) {
        return Err(errors::WOULD_DEADLOCK.error(
            py,
            format!("shutdown_all was called from a handler of queue {:?}, which it would wait for", shared.name()),
        ));
    }
    let mut is_clean = true;
    for shared in queues {
        let deadline = match timeout {
            Some(_) => common,
            None => Deadline::after("shutdown_timeout", shared.shutdown_timeout)?,
        };
        is_clean &= shared.end(py, deadline)?;
    }
    shared_scheduler::stop_all();
    Ok(is_clean)
}
