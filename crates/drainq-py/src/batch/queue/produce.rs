//! `produce`, `offer` and `produce_many` of the class, with their documentation. CPython calls `produce` and
//! `produce_many` by their raw methods (`raw_method.rs`).

use super::BatchQueue;
use crate::arguments;
use crate::deadline::{Deadline, MayWait};
use pyo3::prelude::*;

#[pymethods]
impl BatchQueue {
    /// Queue one item.
    ///
    /// On a ``BLOCKING`` queue this waits for room, without the GIL; Ctrl-C ends the wait. On
    /// an ``IF_POSSIBLE`` queue it never waits.
    ///
    /// Args:
    ///     item: any object. Kept by reference until its batch has been handled.
    /// Returns:
    ///     True if it was queued, False if there was no room or the queue is shut down.
    /// Raises:
    ///     WouldDeadlock: called from a handler of this queue while the partition is full
    ///         and the queue is ``BLOCKING``.
    ///     MemoryError: there is no memory for the item, which is not counted as offered.
    ///
    /// Source: ``produce`` in SkyWalking's ``BatchQueue.java``.
    pub fn produce(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.shared().produce(item, self.shared().may_wait())
    }

    /// Queue one item, waiting for room until a deadline, whatever the queue's strategy.
    ///
    /// Args:
    ///     item: any object.
    ///     timeout: seconds to wait for room; 0 never waits; None does the same as ``produce``.
    /// Returns:
    ///     True if it was queued, False if the time ran out or the queue is shut down.
    /// Raises:
    ///     WouldDeadlock: it would wait, and was called from a handler of this queue.
    ///     MemoryError: as ``produce``.
    ///     ValueError: ``timeout`` is negative or not a number.
    ///
    /// Source: ``produce`` in SkyWalking's ``BatchQueue.java``; the timeout is ours.
    #[pyo3(signature = (item, timeout=None))]
    fn offer(
        &self,
        item: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<bool> {
        let may_wait = match timeout {
            None => self.shared().may_wait(),
            Some(_) => MayWait::Until(Deadline::after("timeout", timeout)?),
        };
        self.shared().produce(item, may_wait)
    }

    /// Queue many items, in order.
    ///
    /// Args:
    ///     items: an iterable, but no str or bytes: to queue characters, give a list of them.
    /// Returns:
    ///     How many were accepted. On a ``BLOCKING`` queue that is all of them, unless the
    ///     queue is shut down meanwhile.
    /// Raises:
    ///     TypeError: ``items`` is no iterable, or a str or bytes.
    ///     MemoryError: there is no memory for the next item; the items before that are queued.
    ///     An exception of the iteration. The items before it are queued.
    pub fn produce_many(&self, items: &Bound<'_, PyAny>) -> PyResult<u64> {
        self.shared().produce_many(items, self.shared().may_wait())
    }
}
