//! `get_many`: many items at once.

use super::{MultiQueue, shut_down};
use crate::arguments;
use crate::deadline::MayWait;
use crate::multi::blocking::{Otherwise, until};
use crate::multi::values;
use drainq_core::multi::Gathered;
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
    /// A call that waits takes nothing: other getters may, so with ``min_items`` a call may wait for a long
    /// time. Where a full sub-queue keeps producers out, enough items could never come: then the first waiting
    /// ``get_many``, and no other, takes the items that are there and holds them. If an exception ends its wait
    /// (Ctrl-C), the held items go back to the heads that they came from, those of removed sub-queues too.
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
        let (most, least) = values::amounts_in(n, min_items)?;
        let (may_wait, core) = (MayWait::new(least > 0, timeout)?, &self.core);
        if let Some(items) = self.selection.take_all(core, least, most) {
            return PyList::new(py, items);
        }
        let items = until(py, core.getter(), may_wait, |waiter, otherwise| {
            let least = if otherwise == Otherwise::GiveUp { 0 } else { least };
            if self.selection.gather(py, core, waiter, least, most)? == Gathered::TooFew {
                return Ok(None);
            }
            let items = waiter.finish();
            if items.is_empty() && most > 0 && core.is_shut_down() {
                return Err(shut_down(py));
            }
            Ok(Some(items))
        })?;
        PyList::new(py, items.unwrap_or_default())
    }
}
