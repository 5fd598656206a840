//! `task_done` and `join`: the end of the work.

use super::MultiQueue;
use crate::arguments;
use crate::waiting::queue;
use pyo3::prelude::*;

#[pymethods]
impl MultiQueue {
    /// Mark a taken item as done, for :meth:`join`.
    ///
    /// Handling an item may put others; :meth:`join` then waits for these too.
    ///
    /// Raises:
    ///     ValueError: called more often than items were taken.
    ///
    /// Source: ``queue.Queue.task_done``.
    fn task_done(&self) -> PyResult<()> {
        if self.core.task_done() { Ok(()) } else { Err(queue::too_many_done()) }
    }

    /// Wait until each item that was put is done (:meth:`task_done`) or was removed.
    ///
    /// Args:
    ///     timeout: seconds to wait; None waits for ever.
    /// Returns:
    ///     True if so, False if the time ran out.
    ///
    /// Example:
    ///     >>> from drainq import MultiQueue
    ///     >>> queue = MultiQueue()
    ///     >>> queue.add_sub_queue("mail").put("hello")
    ///     True
    ///     >>> queue.get(), queue.join(timeout=0)
    ///     ('hello', False)
    ///     >>> queue.task_done()
    ///     >>> queue.join()
    ///     True
    ///
    /// Source: ``queue.Queue.join``; the timeout is drainq's.
    #[pyo3(signature = (timeout=None))]
    fn join(&self, py: Python<'_>, #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>) -> PyResult<bool> {
        queue::join(self, py, timeout)
    }
}
