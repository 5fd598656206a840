//! `done`, `task_done` and `join`; the polls during which a done item stays known.

use super::SetQueue;
use super::waiting::release;
use crate::arguments;
use crate::waiting::queue;
use drainq_core::sources::set_queue::Poll;
use pyo3::prelude::*;

#[pymethods]
impl SetQueue {
    /// Mark a taken item as done, for :meth:`join`.
    ///
    /// Handling an item may put others; :meth:`join` then waits for these too. With ``in_flight="ack"`` call
    /// :meth:`done` instead, which names the items.
    ///
    /// Raises:
    ///     ValueError: called more often than items were taken.
    ///
    /// Source: ``queue.Queue.task_done``.
    fn task_done(&self) -> PyResult<()> {
        let mut state = self.state.lock();
        let is_one = state.task_done();
        release(&self.state, state);
        if is_one { Ok(()) } else { Err(queue::too_many_done()) }
    }

    /// Wait until each item that was put is done (:meth:`task_done`, :meth:`done`) or was taken out by :meth:`clear`.
    ///
    /// Args:
    ///     timeout: seconds to wait; ``None`` waits for ever.
    /// Returns:
    ///     True if so, False if the time ran out.
    ///
    /// Source: ``queue.Queue.join``; the timeout is drainq's.
    #[pyo3(signature = (timeout=None))]
    fn join(&self, py: Python<'_>, #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>) -> PyResult<bool> {
        queue::join(self, py, timeout)
    }

    /// Mark items taken from the queue as done (``in_flight="ack"``).
    ///
    /// This is their ``task_done`` too. Their keys are forgotten after ``ttl`` seconds, if there is a ``ttl``, and not
    /// before a running poll of a :class:`PrefetchSource` has ended.
    ///
    /// Args:
    ///     items: an iterable of items.
    /// Returns:
    ///     How many of them were in flight.
    ///
    /// Example:
    ///     >>> from drainq import SetQueue
    ///     >>> pages = SetQueue(in_flight="ack")
    ///     >>> pages.put("/"), pages.get(), pages.put("/")
    ///     (True, '/', False)
    ///     >>> pages.done(["/"]), pages.put("/")
    ///     (1, True)
    fn done(&self, items: &Bound<'_, PyAny>) -> PyResult<usize> {
        let now = self.now(items.py())?;
        let mut were = 0;
        for item in arguments::items(items)? {
            let mut identity = self.identity(&item?)?;
            let (mut state, found) = self.locate(items.py(), &mut identity)?;
            let Some((entry, _)) = found else { continue };
            let answer = state.queue.done(entry, now);
            if answer.is_ok() {
                state.task_done();
                were += 1;
            }
            release(&self.state, state);
        }
        Ok(were)
    }

    /// Begins a poll of a `PrefetchSource`; returns a token for `_end_poll`.
    ///
    /// The source may have read its items before an item in flight was done. So a done item stays known until the poll
    /// ends, and its stale copy is refused.
    #[pyo3(name = "_begin_poll")]
    fn begin_poll(&self) -> u64 {
        self.state.lock().queue.begin_poll().0
    }

    /// Ends a poll whose items have been put. Returns false if there is no such poll.
    #[pyo3(name = "_end_poll")]
    fn end_poll(&self, py: Python<'_>, token: u64) -> PyResult<bool> {
        let was_under_way = self.state.lock().queue.end_poll(Poll(token));
        self.forget_due(py)?;
        Ok(was_under_way)
    }
}
