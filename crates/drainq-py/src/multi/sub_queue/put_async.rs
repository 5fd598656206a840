//! `put_async`: an item into a sub-queue, from a coroutine.

use super::SubQueue;
use crate::multi::awaitable::{AsyncCall, QueueAwaitable};
use crate::multi::blocking::Otherwise;
use crate::multi::core_types::Wait;
use crate::multi::event_loops::EventLoops;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use std::ffi::CStr;
use std::sync::Arc;

/// The call that puts an item.
struct Put {
    sub_queue: Py<SubQueue>,
    item: Py<PyAny>,
}

impl AsyncCall for Put {
    fn try_now(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let is_put = self.sub_queue.get().try_put(py, &self.item, Otherwise::Wait)?;
        Ok(is_put.then(|| py.None()))
    }

    fn waiter(&self) -> Wait {
        self.sub_queue.get().core.putter()
    }

    fn event_loops(&self) -> &Arc<EventLoops> {
        &self.sub_queue.get().event_loops
    }

    fn count_given_up(&self) {
        self.sub_queue.get().core.reject(1);
    }

    fn never_awaited(&self) -> Option<&'static CStr> {
        Some(c"coroutine 'SubQueue.put_async' was never awaited")
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.sub_queue)?;
        visit.call(&self.item)
    }
}

#[pymethods]
impl SubQueue {
    /// Put an item at the end from a coroutine: ``await sub_queue.put_async(item)``.
    ///
    /// Cancelling the wait puts nothing; the item then counts as rejected.
    ///
    /// Args:
    ///     item: any object, None included.
    /// Raises:
    ///     SubQueueRemoved, ShutDown: as :meth:`put`, when awaited.
    ///
    /// Example:
    ///     >>> import asyncio
    ///     >>> from drainq import MultiQueue
    ///     >>> mail = MultiQueue().add_sub_queue("mail", capacity=2)
    ///     >>> asyncio.run(mail.put_async("hello"))
    ///     >>> mail.qsize()
    ///     1
    fn put_async(slf: Py<Self>, item: Py<PyAny>) -> QueueAwaitable {
        QueueAwaitable::new(Put { sub_queue: slf, item })
    }
}
