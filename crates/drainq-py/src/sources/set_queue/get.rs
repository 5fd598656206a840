//! `get`, `get_many`, their coroutines, and the streams: items out of a set queue.

use super::SetQueue;
use super::state::WaitFor;
use super::waiting::{SetWait, release};
use crate::deadline::MayWait;
use crate::waiting::WaitingPlace;
use crate::waiting::awaitable::{AsyncCall, QueueAwaitable};
use crate::waiting::blocking::{Otherwise, until};
use crate::waiting::event_loops::EventLoops;
use crate::waiting::stream::{AsyncItemStream, AtShutdown, ItemStream, Streamed, Taken};
use crate::{arguments, errors};
use drainq_core::wait::tickets::Request;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::ffi::CStr;
use std::sync::Arc;

impl SetQueue {
    #[inline]
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Taken<Bound<'py, PyAny>>> {
        let now = self.now(py)?;
        let mut state = self.state.lock();
        if let Some(taken) = state.take(py, now) {
            release(&self.state, state);
            return Ok(Taken::Got(taken.item));
        }
        Ok(if state.closed { Taken::ShutDown } else { Taken::Empty })
    }

    /// Takes the first item; `None` if there is none now.
    #[inline]
    fn take_or_wait<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.take(py)?.or_wait(|| shut_down(py))
    }

    /// Takes up to `most` items; `None` if there are fewer than `least` and the call may wait.
    fn take_many<'py>(
        &self,
        py: Python<'py>,
        otherwise: Otherwise,
        least: usize,
        most: usize,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let now = self.now(py)?;
        let mut state = self.state.lock();
        let (there, is_closed) = (state.queue.len(), state.closed);
        if there < least && otherwise == Otherwise::Wait && !is_closed {
            return Ok(None);
        }
        let taken: Vec<_> = (0..most.min(there)).map_while(|_| state.take(py, now)).collect();
        release(&self.state, state);
        if is_closed && taken.is_empty() && most > 0 {
            return Err(shut_down(py));
        }
        PyList::new(py, taken.into_iter().map(|taken| taken.item)).map(Some)
    }

    /// Makes a waiter for this many items.
    fn getter(&self, need: usize) -> SetWait {
        SetWait::new(&self.state, WaitFor::Item, Request::of(need))
    }

    /// Reads how many items a call takes, at most and at least.
    fn amounts(&self, n: i64, min_items: i64) -> PyResult<(usize, usize)> {
        let (most, least) = arguments::amounts(n, min_items)?;
        let capacity = self.state.lock().capacity;
        if least > capacity {
            return Err(errors::bad_value(format!(
                "min_items must be at most the capacity ({capacity} items), got {least}: there would never be enough"
            )));
        }
        Ok((most, least))
    }
}

fn empty(py: Python<'_>) -> PyErr {
    errors::EMPTY.error(py, "no item is waiting")
}

#[cold]
fn shut_down(py: Python<'_>) -> PyErr {
    errors::SHUT_DOWN.error(py, "the queue is shut down and empty")
}

/// The items that a coroutine takes.
enum SetGetOf {
    /// One item.
    Item(AtShutdown),
    /// At most and at least this many items.
    Many { most: usize, least: usize },
}

/// The call that takes items from a coroutine.
struct SetGet {
    queue: Py<SetQueue>,
    what: SetGetOf,
    waiter: SetWait,
}

impl SetGet {
    fn new(queue: Py<SetQueue>, what: SetGetOf) -> Self {
        let need = if let SetGetOf::Many { least, .. } = what { least } else { 1 };
        let waiter = queue.get().getter(need);
        Self { queue, what, waiter }
    }
}

impl AsyncCall for SetGet {
    fn try_now(&mut self, py: Python<'_>, otherwise: Otherwise) -> PyResult<Option<Py<PyAny>>> {
        let queue = self.queue.get();
        let taken = match self.what {
            SetGetOf::Many { most, least } => queue.take_many(py, otherwise, least, most)?.map(Bound::into_any),
            SetGetOf::Item(at_shutdown) => queue.take(py)?.or_wait(|| at_shutdown.error(|| shut_down(py)))?,
        };
        Ok(taken.map(Bound::unbind))
    }

    fn sleeps(&mut self) -> (&mut dyn WaitingPlace, &Arc<EventLoops>) {
        (&mut self.waiter, &self.queue.get().event_loops)
    }

    fn never_awaited(&self) -> Option<&'static CStr> {
        match self.what {
            SetGetOf::Item(AtShutdown::Raise) => Some(c"coroutine 'SetQueue.get_async' was never awaited"),
            SetGetOf::Item(AtShutdown::StopIteration) => None,
            SetGetOf::Many { .. } => Some(c"coroutine 'SetQueue.get_many_async' was never awaited"),
        }
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.queue)
    }
}

impl Streamed for Py<SetQueue> {
    fn next(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let queue = self.get();
        let next = until(py, queue.getter(1), MayWait::for_ever(), |_, _| Ok(queue.take(py)?.or_end()))?;
        Ok(next.flatten().map(Bound::unbind))
    }

    fn next_async(&self, py: Python<'_>) -> QueueAwaitable {
        QueueAwaitable::new(SetGet::new(self.clone_ref(py), SetGetOf::Item(AtShutdown::StopIteration)))
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(self)
    }
}

#[pymethods]
impl SetQueue {
    /// Take the first item, waiting for one if there is none.
    ///
    /// The wait releases the GIL and ends early on Ctrl-C; no item is lost by it.
    ///
    /// Args:
    ///     block: whether to wait for an item.
    ///     timeout: seconds to wait; ``None`` waits for ever.
    /// Raises:
    ///     queue.Empty: no item, or none in time.
    ///     ShutDown: the queue is shut down and empty.
    #[pyo3(signature = (block=true, timeout=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::block)] block: bool,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let may_wait = MayWait::new(block, timeout)?;
        match self.take_or_wait(py)? {
            Some(item) => Ok(item),
            None => until(py, self.getter(1), may_wait, |_, _| self.take_or_wait(py))?.ok_or_else(|| empty(py)),
        }
    }

    /// Take the first item if there is one: ``get(block=False)``.
    fn get_nowait<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.take_or_wait(py)?.ok_or_else(|| empty(py))
    }

    /// Take the first item from a coroutine, waiting for one if there is none: ``item = await queue.get_async()``.
    ///
    /// The event loop continues during the wait. Cancelling the wait takes nothing.
    ///
    /// Args:
    ///     timeout: seconds to wait; ``None`` waits for ever.
    /// Raises:
    ///     queue.Empty, ShutDown: as :meth:`get`, when awaited.
    ///
    /// Example:
    ///     >>> import asyncio
    ///     >>> from drainq import SetQueue
    ///     >>> queue = SetQueue()
    ///     >>> queue.put("a")
    ///     True
    ///     >>> asyncio.run(queue.get_async())
    ///     'a'
    #[pyo3(signature = (timeout=None))]
    fn get_async(
        slf: Py<Self>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<QueueAwaitable> {
        QueueAwaitable::within(SetGet::new(slf, SetGetOf::Item(AtShutdown::Raise)), timeout)
    }

    /// Take many items at once, first to last.
    ///
    /// Args:
    ///     n: items at most; 0 or less takes none.
    ///     min_items: waits until there are this many, and takes none before; 0 never waits.
    ///     timeout: seconds to wait; ``None`` waits for ever.
    /// Returns:
    ///     A list of up to ``n`` items: at least ``min_items`` of them, unless time ran out or a
    ///     shutdown came; then what was there, perhaps ``[]``.
    /// Raises:
    ///     ShutDown: the queue is shut down and empty.
    ///     ValueError: ``min_items`` or ``timeout`` is negative, or ``min_items`` is more than ``n`` or the capacity.
    #[pyo3(signature = (n, *, min_items=1, timeout=None))]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::n)] n: i64,
        #[pyo3(from_py_with = arguments::min_items)] min_items: i64,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (most, least) = self.amounts(n, min_items)?;
        let may_wait = MayWait::new(least > 0, timeout)?;
        let take = |otherwise| self.take_many(py, otherwise, least, most);
        match take(Otherwise::Wait)? {
            Some(items) => Ok(items),
            None => Ok(until(py, self.getter(least), may_wait, |_, otherwise| take(otherwise))?
                .unwrap_or_else(|| PyList::empty(py))),
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
    #[pyo3(signature = (n, *, min_items=1, timeout=None))]
    fn get_many_async(
        slf: Py<Self>,
        #[pyo3(from_py_with = arguments::n)] n: i64,
        #[pyo3(from_py_with = arguments::min_items)] min_items: i64,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<QueueAwaitable> {
        let (most, least) = slf.get().amounts(n, min_items)?;
        QueueAwaitable::within(SetGet::new(slf, SetGetOf::Many { most, least }), timeout)
    }

    /// Return an iterator that takes items as :meth:`get` does, until the shutdown: ``for item in queue.stream()``.
    fn stream(slf: Py<Self>) -> ItemStream {
        ItemStream(Box::new(slf))
    }

    /// Return an iterator that takes items as :meth:`get_async` does: ``async for item in queue.stream_async()``.
    fn stream_async(slf: Py<Self>) -> AsyncItemStream {
        AsyncItemStream(Box::new(slf))
    }
}
