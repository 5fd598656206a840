//! `get_many` and its coroutine: many items at once.

use super::MultiQueue;
use crate::arguments;
use crate::deadline::MayWait;
use crate::waiting::awaitable::QueueAwaitable;
use crate::waiting::queue;
use pyo3::prelude::*;
use pyo3::types::PyList;

#[pymethods]
impl MultiQueue {
    /// Take many items at once, in the order that as many :meth:`get` would take them.
    ///
    /// Args:
    ///     n: items at most; 0 or less takes none.
    ///     min_items: waits until it has this many; 0 never waits.
    ///     timeout: seconds to wait; None waits for ever.
    /// Returns:
    ///     A list of up to ``n`` items: at least ``min_items`` of them, unless time ran out or a
    ///     shutdown came; then what was there, perhaps ``[]``.
    /// Raises:
    ///     ShutDown: the multi-queue was shut down and nothing can be got any more.
    ///     ValueError: ``min_items`` or ``timeout`` is negative, or ``min_items > n``.
    ///
    /// A call that waits takes nothing, and other getters may take items, so a call with ``min_items`` may wait for a
    /// long time. If a full sub-queue blocks its producers, there might never be enough items. In that case the oldest
    /// waiting ``get_many`` takes the available items and keeps them until it has enough. If an exception such as
    /// Ctrl-C ends its wait, these items go back to the heads of their sub-queues, even of removed ones.
    ///
    /// Example:
    ///     >>> from drainq import MultiQueue
    ///     >>> queue = MultiQueue()
    ///     >>> queue.add_sub_queue("a").put_many(["x", "y", "z"]), queue.add_sub_queue("b").put_many(["1"])
    ///     (3, 1)
    ///     >>> queue.get_many(100)
    ///     ['x', '1', 'y', 'z']
    ///
    /// Source: ``drainTo``; it obeys ``selection`` here, and can wait.
    #[pyo3(signature = (n, *, min_items=1, timeout=None))]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::n)] n: i64,
        #[pyo3(from_py_with = arguments::min_items)] min_items: i64,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (most, least) = arguments::amounts(n, min_items)?;
        let may_wait = MayWait::new(least > 0, timeout)?;
        match self.selection.take_all(py, &self.core, least, most) {
            Some(items) => PyList::new(py, items),
            None => queue::get_many(self, py, (most, least), may_wait),
        }
    }

    /// Take many items at once, from a coroutine, as :meth:`get_many` does.
    ///
    /// Cancelling the wait takes nothing.
    ///
    /// Args:
    ///     n, min_items, timeout: as :meth:`get_many`.
    /// Returns:
    ///     The list that :meth:`get_many` returns, when awaited.
    /// Raises:
    ///     ShutDown: as :meth:`get_many`, when awaited.
    ///     ValueError: as :meth:`get_many`.
    ///
    /// Example:
    ///     >>> import asyncio
    ///     >>> from drainq import MultiQueue
    ///     >>> queue = MultiQueue()
    ///     >>> queue.add_sub_queue("mail").put_many(["a", "b", "c"])
    ///     3
    ///     >>> asyncio.run(queue.get_many_async(2))
    ///     ['a', 'b']
    #[pyo3(signature = (n, *, min_items=1, timeout=None))]
    fn get_many_async(
        slf: Py<Self>,
        #[pyo3(from_py_with = arguments::n)] n: i64,
        #[pyo3(from_py_with = arguments::min_items)] min_items: i64,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<QueueAwaitable> {
        queue::get_many_async(slf, arguments::amounts(n, min_items)?, timeout)
    }
}
