//! `get_async`, `get_item_async`, `get_many_async` and `async for`: items, from a coroutine.

use super::{MultiQueue, or_wait};
use crate::arguments;
use crate::errors;
use crate::multi::awaitable::{AsyncCall, QueueAwaitable};
use crate::multi::core_types::Wait;
use crate::multi::event_loops::EventLoops;
use crate::multi::selection::Taken;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::ffi::CStr;
use std::sync::Arc;

/// The effect of a shutdown on a coroutine that gets an item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AtShutdown {
    /// Raises `ShutDown`.
    Raise,
    /// Ends the `async for`.
    StopIteration,
}

/// The call that takes an item.
struct Get {
    queue: Py<MultiQueue>,
    at_shutdown: AtShutdown,
}

impl AsyncCall for Get {
    fn try_now(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let queue = self.queue.get();
        if self.at_shutdown == AtShutdown::Raise {
            return queue.take_or_wait(py);
        }
        match queue.take(py)? {
            Taken::Got(item) => Ok(Some(item)),
            Taken::Empty => Ok(None),
            Taken::ShutDown => Err(errors::stop_async_iteration()),
        }
    }

    fn waiter(&self) -> Wait {
        self.queue.get().core.getter()
    }

    fn event_loops(&self) -> &Arc<EventLoops> {
        &self.queue.get().event_loops
    }

    fn never_awaited(&self) -> Option<&'static CStr> {
        let warns = self.at_shutdown == AtShutdown::Raise;
        warns.then_some(c"coroutine 'MultiQueue.get_async' was never awaited")
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.queue)
    }
}

/// The call that takes an item with the key of its sub-queue.
struct GetItem(Py<MultiQueue>);

impl AsyncCall for GetItem {
    fn try_now(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let queue = self.0.get();
        let taken = or_wait(py, queue.selection.take_labelled(py, &queue.core)?)?;
        let pair = taken.map(|(label, item)| (label.key.clone_ref(py), item).into_pyobject(py));
        Ok(pair.transpose()?.map(|pair| pair.into_any().unbind()))
    }

    fn waiter(&self) -> Wait {
        self.0.get().core.getter()
    }

    fn event_loops(&self) -> &Arc<EventLoops> {
        &self.0.get().event_loops
    }

    fn never_awaited(&self) -> Option<&'static CStr> {
        Some(c"coroutine 'MultiQueue.get_item_async' was never awaited")
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.0)
    }
}

/// The call that takes the available items, at least one.
struct GetMany {
    queue: Py<MultiQueue>,
    most: usize,
}

impl AsyncCall for GetMany {
    fn try_now(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let queue = self.queue.get();
        let core = &queue.core;
        match queue.selection.take_all(core, 1, self.most) {
            Some(items) => Ok(Some(PyList::new(py, items)?.into_any().unbind())),
            // A user's selection chooses each item.
            None => match or_wait(py, queue.take(py)?)? {
                Some(item) => Ok(Some(PyList::new(py, [item])?.into_any().unbind())),
                None => Ok(None),
            },
        }
    }

    fn waiter(&self) -> Wait {
        self.queue.get().core.getter()
    }

    fn event_loops(&self) -> &Arc<EventLoops> {
        &self.queue.get().event_loops
    }

    fn never_awaited(&self) -> Option<&'static CStr> {
        Some(c"coroutine 'MultiQueue.get_many_async' was never awaited")
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.queue)
    }
}

#[pymethods]
impl MultiQueue {
    /// Take the item whose turn it is from a coroutine: ``item = await queue.get_async()``.
    ///
    /// Cancelling the wait takes nothing. Put a limit on it with ``asyncio.wait_for``.
    ///
    /// Returns:
    ///     The item, when awaited.
    /// Raises:
    ///     ShutDown: as :meth:`get`, when awaited.
    ///
    /// Example:
    ///     >>> import asyncio
    ///     >>> from drainq import MultiQueue
    ///     >>> queue = MultiQueue()
    ///     >>> queue.add_sub_queue("mail").put("hello")
    ///     >>> asyncio.run(queue.get_async())
    ///     'hello'
    fn get_async(slf: Py<Self>) -> QueueAwaitable {
        QueueAwaitable::new(Get { queue: slf, at_shutdown: AtShutdown::Raise })
    }

    /// Take the item whose turn it is, with the key of its sub-queue, from a coroutine.
    ///
    /// Cancelling the wait takes nothing.
    ///
    /// Returns:
    ///     ``(key, item)``, when awaited.
    /// Raises:
    ///     ShutDown: as :meth:`get`, when awaited.
    ///
    /// Example:
    ///     >>> import asyncio
    ///     >>> from drainq import MultiQueue
    ///     >>> queue = MultiQueue()
    ///     >>> queue.add_sub_queue("mail").put("hello")
    ///     >>> asyncio.run(queue.get_item_async())
    ///     ('mail', 'hello')
    fn get_item_async(slf: Py<Self>) -> QueueAwaitable {
        QueueAwaitable::new(GetItem(slf))
    }

    /// Take what there is, from a coroutine: at least one item, and at most ``n``.
    ///
    /// Cancelling the wait takes nothing.
    ///
    /// Args:
    ///     n: items at most; at least 1.
    /// Returns:
    ///     A list, in the order that as many :meth:`get` would take the items; when awaited.
    /// Raises:
    ///     ShutDown: as :meth:`get`, when awaited.
    ///     ValueError: ``n`` is below 1.
    ///
    /// Example:
    ///     >>> import asyncio
    ///     >>> from drainq import MultiQueue
    ///     >>> queue = MultiQueue()
    ///     >>> queue.add_sub_queue("mail").put_many(["a", "b", "c"])
    ///     3
    ///     >>> asyncio.run(queue.get_many_async(2))
    ///     ['a', 'b']
    fn get_many_async(slf: Py<Self>, #[pyo3(from_py_with = arguments::n)] n: i64) -> PyResult<QueueAwaitable> {
        match usize::try_from(n) {
            Ok(most) if most >= 1 => Ok(QueueAwaitable::new(GetMany { queue: slf, most })),
            _ => Err(errors::bad_value(format!("n must be at least 1 item, got {n}"))),
        }
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__(slf: Py<Self>) -> QueueAwaitable {
        QueueAwaitable::new(Get { queue: slf, at_shutdown: AtShutdown::StopIteration })
    }
}
