//! `get_async`, `get_item_async`, `get_many_async`, and the streams: items one after the other.

use super::{MultiQueue, shut_down};
use crate::arguments;
use crate::deadline::MayWait;
use crate::multi::core_types::Wait;
use crate::waiting::WaitingPlace;
use crate::waiting::awaitable::{AsyncCall, QueueAwaitable};
use crate::waiting::blocking::{Otherwise, until};
use crate::waiting::event_loops::EventLoops;
use crate::waiting::stream::{AsyncItemStream, AtShutdown, ItemStream, Streamed};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::ffi::CStr;
use std::sync::Arc;

/// The items that a coroutine takes.
enum What {
    /// One item.
    Item(AtShutdown),
    /// One item with the key of its sub-queue.
    Labelled,
    /// At most and at least this many items.
    Many { most: usize, least: usize },
}

/// The call that takes items.
struct Get {
    queue: Py<MultiQueue>,
    what: What,
    waiter: Wait,
}

impl Get {
    fn new(queue: Py<MultiQueue>, what: What) -> Self {
        let waiter = queue.get().core.getter();
        Self { queue, what, waiter }
    }
}

impl AsyncCall for Get {
    fn try_now(&mut self, py: Python<'_>, otherwise: Otherwise) -> PyResult<Option<Py<PyAny>>> {
        let queue = self.queue.get();
        match self.what {
            What::Item(at_shutdown) => queue.take(py)?.or_wait(|| at_shutdown.error(|| shut_down(py))),
            What::Labelled => {
                let taken = queue.selection.take_labelled(py, &queue.core)?.or_wait(|| shut_down(py))?;
                let pair = taken.map(|(label, item)| (label.key.clone_ref(py), item).into_pyobject(py));
                Ok(pair.transpose()?.map(|pair| pair.into_any().unbind()))
            }
            What::Many { most, least } => {
                let items = queue.take_many(py, &mut self.waiter, otherwise, least, most)?;
                Ok(items.map(|items| PyList::new(py, items)).transpose()?.map(|items| items.into_any().unbind()))
            }
        }
    }

    fn sleeps(&mut self) -> (&mut dyn WaitingPlace, &Arc<EventLoops>) {
        (&mut self.waiter, &self.queue.get().event_loops)
    }

    fn never_awaited(&self) -> Option<&'static CStr> {
        match self.what {
            What::Item(AtShutdown::Raise) => Some(c"coroutine 'MultiQueue.get_async' was never awaited"),
            What::Item(AtShutdown::StopIteration) => None,
            What::Labelled => Some(c"coroutine 'MultiQueue.get_item_async' was never awaited"),
            What::Many { .. } => Some(c"coroutine 'MultiQueue.get_many_async' was never awaited"),
        }
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.queue)
    }
}

impl Streamed for Py<MultiQueue> {
    fn next(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let queue = self.get();
        let next = until(py, queue.core.getter(), MayWait::for_ever(), |_, _| Ok(queue.take(py)?.or_end()))?;
        Ok(next.flatten())
    }

    fn next_async(&self, py: Python<'_>) -> QueueAwaitable {
        QueueAwaitable::new(Get::new(self.clone_ref(py), What::Item(AtShutdown::StopIteration)))
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(self)
    }
}

#[pymethods]
impl MultiQueue {
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
        QueueAwaitable::within(Get::new(slf, What::Item(AtShutdown::Raise)), timeout)
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
        QueueAwaitable::within(Get::new(slf, What::Labelled), timeout)
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
        let (most, least) = arguments::amounts(n, min_items)?;
        QueueAwaitable::within(Get::new(slf, What::Many { most, least }), timeout)
    }

    /// Return an iterator that takes items as :meth:`get` does, until the shutdown: ``for item in queue.stream()``.
    ///
    /// Example:
    ///     >>> from drainq import MultiQueue
    ///     >>> queue = MultiQueue()
    ///     >>> queue.add_sub_queue("mail").put_many(["a", "b"])
    ///     2
    ///     >>> queue.shutdown()
    ///     >>> list(queue.stream())
    ///     ['a', 'b']
    fn stream(slf: Py<Self>) -> ItemStream {
        ItemStream(Box::new(slf))
    }

    /// Return an iterator that takes items as :meth:`get_async` does: ``async for item in queue.stream_async()``.
    fn stream_async(slf: Py<Self>) -> AsyncItemStream {
        AsyncItemStream(Box::new(slf))
    }
}
