//! `done`, and the polls during which a done item stays known.

use super::SetQueue;
use crate::arguments;
use drainq_core::sources::set_queue::Poll;
use pyo3::prelude::*;

#[pymethods]
impl SetQueue {
    /// Say that items taken from the queue have been dealt with (``in_flight="ack"``).
    ///
    /// Their keys are forgotten: after ``ttl`` seconds if one was given, and not before a poll that
    /// was under way ends (of :class:`PrefetchSource`).
    ///
    /// Args:
    ///     items: an iterable of items.
    /// Returns:
    ///     How many of them were in flight.
    fn done(&self, items: &Bound<'_, PyAny>) -> PyResult<usize> {
        let now = self.now(items.py())?;
        let mut were = 0;
        for item in arguments::items(items)? {
            let mut identity = self.identity(&item?)?;
            let (mut state, found) = self.locate(items.py(), &mut identity)?;
            let Some((entry, _)) = found else { continue };
            let answer = state.queue.done(entry, now);
            drop(state);
            were += usize::from(answer.is_ok());
        }
        Ok(were)
    }

    /// Says that a poll of the source begins, for `PrefetchSource`; returns a token for `_end_poll`.
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
