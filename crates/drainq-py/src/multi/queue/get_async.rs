//! `get_async` and `async for`: one item, from a coroutine.

use super::MultiQueue;
use crate::errors;
use crate::multi::awaitable::{AsyncCall, QueueAwaitable};
use crate::multi::core_types::Wait;
use crate::multi::event_loops::EventLoops;
use crate::multi::selection::Taken;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use std::ffi::CStr;
use std::sync::Arc;

/// What a shutdown does to a coroutine that gets an item.
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

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__(slf: Py<Self>) -> QueueAwaitable {
        QueueAwaitable::new(Get { queue: slf, at_shutdown: AtShutdown::StopIteration })
    }
}
