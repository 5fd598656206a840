//! `get_many`: many items at once.

use super::{MultiQueue, shut_down};
use crate::arguments;
use crate::deadline::MayWait;
use crate::multi::core_types::Wait;
use crate::multi::sub_queue::left;
use crate::waiting::blocking::{Otherwise, until};
use drainq_core::multi::Gathered;
use pyo3::prelude::*;
use pyo3::types::PyList;

impl MultiQueue {
    /// Takes up to `most` items by turns; `None` if there are fewer than `least` and the call may wait.
    pub(super) fn take_many(
        &self,
        py: Python<'_>,
        waiter: &mut Wait,
        otherwise: Otherwise,
        least: usize,
        most: usize,
    ) -> PyResult<Option<Vec<Py<PyAny>>>> {
        let least = if otherwise == Otherwise::GiveUp { 0 } else { least };
        if self.selection.gather(py, &self.core, waiter, least, most)? == Gathered::TooFew {
            return Ok(None);
        }
        let items: Vec<_> = waiter.finish().into_iter().map(|item| left(py, item)).collect();
        if items.is_empty() && most > 0 && self.core.is_shut_down() {
            return Err(shut_down(py));
        }
        Ok(Some(items))
    }
}

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
        let (may_wait, core) = (MayWait::new(least > 0, timeout)?, &self.core);
        if let Some(items) = self.selection.take_all(py, core, least, most) {
            return PyList::new(py, items);
        }
        let items =
            until(py, core.getter(), may_wait, |waiter, otherwise| self.take_many(py, waiter, otherwise, least, most))?;
        PyList::new(py, items.unwrap_or_default())
    }
}
