//! `get`, `get_many` and their coroutines: items out of a set queue.

use super::SetQueue;
use super::state::WaitFor;
use super::waiting::{SetWait, release};
use crate::deadline::MayWait;
use crate::waiting::awaitable::QueueAwaitable;
use crate::waiting::blocking::Otherwise;
use crate::waiting::event_loops::EventLoops;
use crate::waiting::queue::{self, Taken, WaitingQueue};
use crate::{arguments, errors};
use drainq_core::wait::tickets::Request;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::sync::Arc;

impl WaitingQueue for SetQueue {
    type Waiter = SetWait;

    #[inline]
    fn take(&self, py: Python<'_>) -> PyResult<Taken<Py<PyAny>>> {
        let now = self.now(py)?;
        let mut state = self.state.lock();
        if let Some(taken) = state.take(py, now) {
            release(&self.state, state);
            return Ok(Taken::Got(taken.item.unbind()));
        }
        Ok(if state.closed { Taken::ShutDown } else { Taken::Empty })
    }

    fn take_many<'py>(
        &self,
        py: Python<'py>,
        _waiter: &mut SetWait,
        otherwise: Otherwise,
        least: usize,
        most: usize,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        self.take_some(py, otherwise, least, most)
    }

    fn getter(&self, need: usize) -> SetWait {
        SetWait::new(&self.state, WaitFor::Item, Request::of(need))
    }

    fn is_finished(&self) -> bool {
        self.state.lock().unfinished() == 0
    }

    fn joiner(&self) -> SetWait {
        SetWait::new(&self.state, WaitFor::Done, Request::of(1))
    }

    fn event_loops(&self) -> &Arc<EventLoops> {
        &self.event_loops
    }

    fn empty_error(py: Python<'_>) -> PyErr {
        errors::EMPTY.error(py, "no item is waiting")
    }

    #[cold]
    fn shut_down_error(py: Python<'_>) -> PyErr {
        errors::SHUT_DOWN.error(py, "the queue is shut down and empty")
    }
}

impl SetQueue {
    /// Takes up to `most` items; `None` if there are fewer than `least` and the call may wait.
    #[inline]
    fn take_some<'py>(
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
            return Err(Self::shut_down_error(py));
        }
        PyList::new(py, taken.into_iter().map(|taken| taken.item)).map(Some)
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
    ///
    /// Example:
    ///     >>> from drainq import SetQueue
    ///     >>> pages = SetQueue()
    ///     >>> pages.put_many(["/", "/about", "/"])
    ///     2
    ///     >>> pages.get(), pages.get()
    ///     ('/', '/about')
    #[pyo3(signature = (block=true, timeout=None))]
    fn get(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::block)] block: bool,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        queue::get(self, py, MayWait::new(block, timeout)?)
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
        queue::get_async(slf, timeout)
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
        match self.take_some(py, Otherwise::Wait, least, most)? {
            Some(items) => Ok(items),
            None => queue::get_many(self, py, (most, least), may_wait),
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
        let amounts = slf.get().amounts(n, min_items)?;
        queue::get_many_async(slf, amounts, timeout)
    }
}
