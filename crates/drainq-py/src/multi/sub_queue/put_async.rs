//! `put_async` and `put_many_async`: items into a sub-queue, from a coroutine.

use super::SubQueue;
use super::put::{Offered, PutMany};
use crate::arguments;
use crate::errors;
use crate::multi::core_types::Wait;
use crate::waiting::WaitingPlace;
use crate::waiting::awaitable::{AsyncCall, IN_A_TURN, QueueAwaitable};
use crate::waiting::blocking::Otherwise;
use crate::waiting::event_loops::EventLoops;
use drainq_core::multi::PutRefusal;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyBool;
use std::sync::Arc;

/// The call that puts an item.
struct Put {
    sub_queue: Py<SubQueue>,
    item: Py<PyAny>,
    /// Made by the first try, because making it runs the code of the item's owner.
    offered: Option<Offered>,
    waiter: Wait,
}

impl AsyncCall for Put {
    fn try_now(&mut self, py: Python<'_>, otherwise: Otherwise) -> PyResult<Option<Py<PyAny>>> {
        let sub_queue = self.sub_queue.get();
        let offered = match &mut self.offered {
            Some(offered) => offered,
            None => self.offered.insert(sub_queue.offered(py, self.item.clone_ref(py))?),
        };
        let put = sub_queue.try_put(py, offered, otherwise)?;
        Ok(put.map(|is_new| PyBool::new(py, is_new).to_owned().into_any().unbind()))
    }

    fn sleeps(&mut self) -> (&mut dyn WaitingPlace, &Arc<EventLoops>) {
        (&mut self.waiter, &self.sub_queue.get().event_loops)
    }

    fn timed_out(&self, py: Python<'_>) -> PyErr {
        self.sub_queue.get().refused(py, PutRefusal::Full)
    }

    fn count_given_up(&self) {
        self.sub_queue.get().core.reject(1);
    }

    fn method(&self) -> Option<String> {
        Some("SubQueue.put_async".to_owned())
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.sub_queue)?;
        visit.call(&self.item)
    }
}

/// The call that puts many items.
struct Many {
    sub_queue: Py<SubQueue>,
    items: PutMany,
    waiter: Wait,
    gives_way: bool,
}

impl AsyncCall for Many {
    fn try_now(&mut self, py: Python<'_>, otherwise: Otherwise) -> PyResult<Option<Py<PyAny>>> {
        let (sub_queue, before) = (self.sub_queue.get(), self.items.rest().len());
        let put = self.items.try_now(py, sub_queue, otherwise, IN_A_TURN).map_err(|error| self.marked(py, error))?;
        let is_a_turn = sub_queue.unique.is_some() && before - self.items.rest().len() == IN_A_TURN;
        self.gives_way = put.is_none() && is_a_turn;
        if put.is_none() && (otherwise == Otherwise::Wait || self.gives_way) {
            return Ok(None);
        }
        self.items.reject_rest(sub_queue);
        Ok(Some(self.items.accepted().into_pyobject(py)?.into_any().unbind()))
    }

    fn gives_way(&self) -> bool {
        self.gives_way
    }

    fn sleeps(&mut self) -> (&mut dyn WaitingPlace, &Arc<EventLoops>) {
        (&mut self.waiter, &self.sub_queue.get().event_loops)
    }

    fn marked(&self, py: Python<'_>, error: PyErr) -> PyErr {
        errors::after_accepting(py, error, self.items.accepted())
    }

    fn count_given_up(&self) {
        self.items.reject_rest(self.sub_queue.get());
    }

    fn method(&self) -> Option<String> {
        Some("SubQueue.put_many_async".to_owned())
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.sub_queue)?;
        self.items.rest().iter().try_for_each(|item| visit.call(item))
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
    ///     timeout: seconds to wait for room; None waits for ever.
    /// Returns:
    ///     What :meth:`put` returns, when awaited.
    /// Raises:
    ///     queue.Full, SubQueueRemoved, ShutDown: as :meth:`put`, when awaited.
    ///     ValueError: ``timeout`` is negative or not a number.
    ///
    /// Example:
    ///     >>> import asyncio
    ///     >>> from drainq import MultiQueue
    ///     >>> mail = MultiQueue().add_sub_queue("mail", capacity=2)
    ///     >>> asyncio.run(mail.put_async("hello"))
    ///     True
    ///     >>> mail.qsize()
    ///     1
    #[pyo3(signature = (item, timeout=None))]
    fn put_async(
        slf: Py<Self>,
        item: Py<PyAny>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<QueueAwaitable> {
        let waiter = slf.get().core.putter();
        QueueAwaitable::within(Put { sub_queue: slf, item, offered: None, waiter }, timeout)
    }

    /// Put items at the end, in order, from a coroutine: ``await sub_queue.put_many_async(items)``.
    ///
    /// The items are read before the first wait. Cancelling leaves in what went in.
    ///
    /// Args:
    ///     items: an iterable.
    ///     timeout: seconds to wait for room, in all; 0 puts what fits now, and None waits for ever.
    /// Returns:
    ///     What :meth:`put_many` returns, when awaited.
    /// Raises:
    ///     SubQueueRemoved, ShutDown, MemoryError: as :meth:`put_many`, when awaited. Of these and of the exception
    ///         that ends the wait (a cancellation) the attribute ``accepted`` says how many items had gone in before.
    ///     ValueError: ``timeout`` is negative or not a number.
    ///
    /// Example:
    ///     >>> import asyncio
    ///     >>> from drainq import MultiQueue
    ///     >>> mail = MultiQueue().add_sub_queue("mail", capacity=2)
    ///     >>> asyncio.run(mail.put_many_async(["a", "b", "c"], timeout=0))
    ///     2
    #[pyo3(signature = (items, timeout=None))]
    fn put_many_async(
        slf: Py<Self>,
        items: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<QueueAwaitable> {
        let (waiter, items) = (slf.get().core.putter(), PutMany::new(items)?);
        QueueAwaitable::within(Many { sub_queue: slf, items, waiter, gives_way: false }, timeout)
    }
}
