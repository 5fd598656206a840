//! `get`, `get_item`, `peek` and their coroutines: one item.

use super::MultiQueue;
use crate::deadline::MayWait;
use crate::multi::core_types::Wait;
use crate::multi::selection::Labelled;
use crate::multi::sub_queue::left;
use crate::waiting::awaitable::QueueAwaitable;
use crate::waiting::blocking::{Otherwise, until};
use crate::waiting::event_loops::EventLoops;
use crate::waiting::queue::{self, Call, Taken, WaitingQueue};
use crate::{arguments, errors};
use drainq_core::multi::Gathered;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::sync::Arc;

impl WaitingQueue for MultiQueue {
    type Waiter = Wait;

    #[inline]
    fn take(&self, py: Python<'_>) -> PyResult<Taken<Py<PyAny>>> {
        self.selection.take(py, &self.core)
    }

    fn take_many<'py>(
        &self,
        py: Python<'py>,
        waiter: &mut Wait,
        otherwise: Otherwise,
        least: usize,
        most: usize,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let least = if otherwise == Otherwise::GiveUp { 0 } else { least };
        if self.selection.gather(py, &self.core, waiter, least, most)? == Gathered::TooFew {
            return Ok(None);
        }
        let items = waiter.finish();
        if items.is_empty() && most > 0 && self.core.is_shut_down() {
            return Err(Self::shut_down_error(py));
        }
        PyList::new(py, items.into_iter().map(|item| left(py, item))).map(Some)
    }

    fn getter(&self, _need: usize) -> Wait {
        self.core.getter()
    }

    fn is_finished(&self) -> bool {
        self.core.shared().unfinished() == 0
    }

    fn joiner(&self) -> Wait {
        self.core.joiner()
    }

    fn event_loops(&self) -> &Arc<EventLoops> {
        &self.event_loops
    }

    #[cold]
    fn empty_error(py: Python<'_>) -> PyErr {
        errors::EMPTY.error(py, "no enabled sub-queue holds an item")
    }

    #[cold]
    fn shut_down_error(py: Python<'_>) -> PyErr {
        errors::SHUT_DOWN.error(py, "the multi-queue was shut down and nothing is left to get")
    }
}

impl MultiQueue {
    /// Takes the next item with the key of its sub-queue; `None` if there is none now.
    fn take_with_key(&self, py: Python<'_>) -> PyResult<Option<(Py<PyAny>, Py<PyAny>)>> {
        let taken = self.selection.take_labelled(py, &self.core)?.or_wait(|| Self::shut_down_error(py))?;
        Ok(taken.map(|(label, item): Labelled| (label.key.clone_ref(py), item)))
    }
}

#[pymethods]
impl MultiQueue {
    /// Take the item whose turn it is, waiting for one if there is none.
    ///
    /// The wait releases the GIL and ends early on Ctrl-C; no item is lost by it.
    ///
    /// Args:
    ///     block: False to raise at once when there is nothing.
    ///     timeout: seconds to wait for an item; None waits for ever.
    /// Returns:
    ///     The item.
    /// Raises:
    ///     queue.Empty: no enabled sub-queue held an item (in time).
    ///     ShutDown: the multi-queue was shut down and nothing can be got any more.
    ///     ValueError: ``timeout`` is negative or not a number.
    ///
    /// Example:
    ///     >>> from drainq import MultiQueue
    ///     >>> queue = MultiQueue()
    ///     >>> low, high = queue.add_sub_queue("low", priority=2), queue.add_sub_queue("high", priority=1)
    ///     >>> low.put("later"), high.put("first")
    ///     (True, True)
    ///     >>> queue.get(), queue.get(timeout=5)
    ///     ('first', 'later')
    ///
    /// Source: ``take`` and ``poll``; the signature is that of ``queue.Queue.get``.
    #[pyo3(signature = (block=true, timeout=None))]
    fn get(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::block)] block: bool,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        queue::get(self, py, MayWait::new(block, timeout)?)
    }

    /// Take the item whose turn it is, with the key of its sub-queue.
    ///
    /// Args:
    ///     block, timeout: as :meth:`get`.
    /// Returns:
    ///     ``(key, item)``.
    /// Raises:
    ///     queue.Empty, ShutDown, ValueError: as :meth:`get`.
    ///
    /// Example:
    ///     >>> from drainq import MultiQueue
    ///     >>> queue = MultiQueue()
    ///     >>> queue.add_sub_queue("mail").put("hello"), queue.get_item()
    ///     (True, ('mail', 'hello'))
    #[pyo3(signature = (block=true, timeout=None))]
    fn get_item(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::block)] block: bool,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let may_wait = MayWait::new(block, timeout)?;
        until(py, self.core.getter(), may_wait, |_, _| self.take_with_key(py))?.ok_or_else(|| Self::empty_error(py))
    }

    /// Return the item that the next get would take, without taking it.
    ///
    /// Raises:
    ///     queue.Empty: there is none.
    ///     ShutDown: as :meth:`get`.
    fn peek(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let shown = self.selection.peek(py, &self.core)?.or_wait(|| Self::shut_down_error(py))?;
        shown.ok_or_else(|| Self::empty_error(py))
    }

    /// Take the item whose turn it is from a coroutine: ``item = await queue.get_async()``.
    ///
    /// The event loop continues during the wait. Cancelling the wait takes nothing.
    ///
    /// Args:
    ///     timeout: seconds to wait for an item; None waits for ever.
    /// Returns:
    ///     The item, when awaited.
    /// Raises:
    ///     queue.Empty, ShutDown: as :meth:`get`, when awaited.
    ///     ValueError: ``timeout`` is negative or not a number.
    ///
    /// Example:
    ///     >>> import asyncio
    ///     >>> from drainq import MultiQueue
    ///     >>> queue = MultiQueue()
    ///     >>> queue.add_sub_queue("mail").put("hello")
    ///     True
    ///     >>> asyncio.run(queue.get_async())
    ///     'hello'
    #[pyo3(signature = (timeout=None))]
    fn get_async(
        slf: Py<Self>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<QueueAwaitable> {
        queue::get_async(slf, timeout)
    }

    /// Take the item whose turn it is, with the key of its sub-queue, from a coroutine.
    ///
    /// Args:
    ///     timeout: as :meth:`get_async`.
    /// Returns:
    ///     ``(key, item)``, when awaited.
    /// Raises:
    ///     queue.Empty, ShutDown, ValueError: as :meth:`get_async`.
    ///
    /// Example:
    ///     >>> import asyncio
    ///     >>> from drainq import MultiQueue
    ///     >>> queue = MultiQueue()
    ///     >>> queue.add_sub_queue("mail").put("hello")
    ///     True
    ///     >>> asyncio.run(queue.get_item_async())
    ///     ('mail', 'hello')
    #[pyo3(signature = (timeout=None))]
    fn get_item_async(
        slf: Py<Self>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<QueueAwaitable> {
        let waiter = slf.get().core.getter();
        let call = Call::new(slf, waiter, Some("get_item_async"), |py, queue, _, _| {
            let pair = queue.take_with_key(py)?.map(|pair| pair.into_pyobject(py)).transpose()?;
            Ok(pair.map(|pair| pair.into_any().unbind()))
        });
        QueueAwaitable::within(call, timeout)
    }
}
