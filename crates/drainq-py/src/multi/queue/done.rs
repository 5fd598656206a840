//! `task_done` and `join`: the end of the work.

use super::MultiQueue;
use crate::arguments;
use crate::waiting::WaitingPlace;
use crate::waiting::awaitable::QueueAwaitable;
use crate::waiting::event_loops::EventLoops;
use crate::waiting::join::{self, Joined};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use std::sync::Arc;

impl Joined for Py<MultiQueue> {
    fn is_finished(&self) -> bool {
        self.get().core.shared().unfinished() == 0
    }

    fn joiner(&self) -> Box<dyn WaitingPlace> {
        Box::new(self.get().core.joiner())
    }

    fn event_loops(&self) -> &Arc<EventLoops> {
        &self.get().event_loops
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(self)
    }
}

#[pymethods]
impl MultiQueue {
    /// Mark a taken item as done, for :meth:`join`.
    ///
    /// An item may put others before it is done; :meth:`join` then waits for these too.
    ///
    /// Raises:
    ///     ValueError: called more often than items were taken.
    ///
    /// Source: ``queue.Queue.task_done``.
    fn task_done(&self) -> PyResult<()> {
        if self.core.task_done() { Ok(()) } else { Err(join::too_many()) }
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
    fn join(
        slf: Py<Self>,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<bool> {
        join::join(py, &slf, timeout)
    }

    /// Wait from a coroutine as :meth:`join` does: ``await queue.join_async()``.
    #[pyo3(signature = (timeout=None))]
    fn join_async(
        slf: Py<Self>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<QueueAwaitable> {
        join::join_async(slf, timeout)
    }
}
