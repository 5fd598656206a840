//! The calls of a multi-queue and of a set queue that take items or wait for the end of the work.
//!
//! Each class implements how it takes an item ([`WaitingQueue`]). The waiting of threads and tasks is here, for both.

use super::WaitingPlace;
use super::awaitable::{AsyncCall, QueueAwaitable};
use super::blocking::{Otherwise, until};
use super::event_loops::EventLoops;
use super::stream::Streamed;
use crate::deadline::MayWait;
use crate::errors;
use pyo3::PyClass;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;
use pyo3::types::{PyBool, PyList};
use std::sync::Arc;

/// The result of a try to take.
pub enum Taken<T> {
    /// The taken value.
    Got(T),
    /// There is no item now.
    Empty,
    /// The queue was shut down, and nothing is left.
    ShutDown,
}

impl<T> Taken<T> {
    /// Returns the item; `None` if there is none now, and the exception of `shut_down` if there will never be one.
    #[inline]
    pub fn or_wait(self, shut_down: impl FnOnce() -> PyErr) -> PyResult<Option<T>> {
        match self {
            Self::Got(taken) => Ok(Some(taken)),
            Self::Empty => Ok(None),
            Self::ShutDown => Err(shut_down()),
        }
    }
}

/// A queue from which threads and tasks take items.
pub trait WaitingQueue: PyClass<Frozen = True> + Send + Sync {
    /// A thread or a task of the queue that may wait.
    type Waiter: WaitingPlace + 'static;

    /// Takes the next item.
    fn take(&self, py: Python<'_>) -> PyResult<Taken<Py<PyAny>>>;

    /// Takes up to `most` items; `None` if there are fewer than `least` and the call may wait.
    fn take_many<'py>(
        &self,
        py: Python<'py>,
        waiter: &mut Self::Waiter,
        otherwise: Otherwise,
        least: usize,
        most: usize,
    ) -> PyResult<Option<Bound<'py, PyList>>>;

    /// Makes a waiter for this many items.
    fn getter(&self, need: usize) -> Self::Waiter;

    /// Whether each item that was put is done or was removed.
    fn is_finished(&self) -> bool;

    /// Makes a waiter for the moment when each item is done or was removed.
    fn joiner(&self) -> Self::Waiter;

    /// Returns the event loops whose tasks wait.
    fn event_loops(&self) -> &Arc<EventLoops>;

    /// Makes the exception for an item that is not there.
    fn empty_error(py: Python<'_>) -> PyErr;

    /// Makes the exception for an item that will never be there.
    fn shut_down_error(py: Python<'_>) -> PyErr;
}

/// Takes the next item; `None` if there is none now.
#[inline]
fn take_or_wait<Q: WaitingQueue>(queue: &Q, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
    queue.take(py)?.or_wait(|| Q::shut_down_error(py))
}

/// Takes the next item, and waits for one if the call may wait.
#[inline]
pub fn get<Q: WaitingQueue>(queue: &Q, py: Python<'_>, may_wait: MayWait) -> PyResult<Py<PyAny>> {
    match take_or_wait(queue, py)? {
        Some(item) => Ok(item),
        None => get_slowly(queue, py, may_wait),
    }
}

#[cold]
fn get_slowly<Q: WaitingQueue>(queue: &Q, py: Python<'_>, may_wait: MayWait) -> PyResult<Py<PyAny>> {
    until(py, queue.getter(1), may_wait, |_, _| take_or_wait(queue, py))?.ok_or_else(|| Q::empty_error(py))
}

/// Takes the next item if there is one.
pub fn get_nowait<Q: WaitingQueue>(queue: &Q, py: Python<'_>) -> PyResult<Py<PyAny>> {
    take_or_wait(queue, py)?.ok_or_else(|| Q::empty_error(py))
}

/// Takes `most` items at most and `least` at least, and waits for them if the call may wait.
pub fn get_many<'py, Q: WaitingQueue>(
    queue: &Q,
    py: Python<'py>,
    (most, least): (usize, usize),
    may_wait: MayWait,
) -> PyResult<Bound<'py, PyList>> {
    let taken = until(py, queue.getter(least), may_wait, |waiter, otherwise| {
        queue.take_many(py, waiter, otherwise, least, most)
    })?;
    Ok(taken.unwrap_or_else(|| PyList::empty(py)))
}

/// Makes the coroutine of `get_async`.
pub fn get_async<Q: WaitingQueue>(queue: Py<Q>, timeout: Option<f64>) -> PyResult<QueueAwaitable> {
    let waiter = queue.get().getter(1);
    QueueAwaitable::within(
        Call::new(queue, waiter, Some("get_async"), |py, queue, _, _| take_or_wait(queue, py)),
        timeout,
    )
}

/// Makes the coroutine of `get_many_async`.
pub fn get_many_async<Q: WaitingQueue>(
    queue: Py<Q>,
    (most, least): (usize, usize),
    timeout: Option<f64>,
) -> PyResult<QueueAwaitable> {
    let waiter = queue.get().getter(least);
    let call = Call::new(queue, waiter, Some("get_many_async"), move |py, queue, waiter, otherwise| {
        Ok(queue.take_many(py, waiter, otherwise, least, most)?.map(|items| items.into_any().unbind()))
    });
    QueueAwaitable::within(call, timeout)
}

impl<Q: WaitingQueue> Streamed for Py<Q> {
    fn next(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let queue = self.get();
        let next = until(py, queue.getter(1), MayWait::for_ever(), |_, _| {
            Ok(match queue.take(py)? {
                Taken::Got(item) => Some(Some(item)),
                Taken::Empty => None,
                Taken::ShutDown => Some(None),
            })
        })?;
        Ok(next.flatten())
    }

    fn next_async(&self, py: Python<'_>) -> QueueAwaitable {
        let (queue, waiter) = (self.clone_ref(py), self.get().getter(1));
        QueueAwaitable::new(Call::new(queue, waiter, None, |py, queue, _, _| {
            queue.take(py)?.or_wait(errors::stop_async_iteration)
        }))
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(self)
    }
}

/// Returns whether each item is done; `None` if not, and the call may wait.
fn joined(queue: &impl WaitingQueue, otherwise: Otherwise) -> Option<bool> {
    let is_finished = queue.is_finished();
    (is_finished || otherwise == Otherwise::GiveUp).then_some(is_finished)
}

/// Waits until each item is done; false if the time ran out.
pub fn join(queue: &impl WaitingQueue, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
    let may_wait = MayWait::new(true, timeout)?;
    let is_finished = until(py, queue.joiner(), may_wait, |_, otherwise| Ok(joined(queue, otherwise)))?;
    Ok(is_finished.unwrap_or(false))
}

/// Makes the coroutine that waits until each item is done.
pub fn join_async<Q: WaitingQueue>(queue: Py<Q>, timeout: Option<f64>) -> PyResult<QueueAwaitable> {
    let waiter = queue.get().joiner();
    let call = Call::new(queue, waiter, Some("join_async"), |py, queue, _, otherwise| {
        Ok(joined(queue, otherwise).map(|is_finished| PyBool::new(py, is_finished).to_owned().into_any().unbind()))
    });
    QueueAwaitable::within(call, timeout)
}

/// Makes the exception for a `task_done` that belongs to no item.
#[cold]
pub fn too_many_done() -> PyErr {
    errors::bad_value("task_done() was called more often than items were taken")
}

/// A call of a coroutine that needs nothing but its queue and its waiter.
pub struct Call<Q: WaitingQueue, F> {
    queue: Py<Q>,
    waiter: Q::Waiter,
    /// The method that made the coroutine, for the warning; `None` for no warning.
    method: Option<&'static str>,
    try_now: F,
}

impl<Q: WaitingQueue, F> Call<Q, F>
where
    F: Fn(Python<'_>, &Q, &mut Q::Waiter, Otherwise) -> PyResult<Option<Py<PyAny>>> + Send + Sync,
{
    /// Makes the call. `try_now` is [`AsyncCall::try_now`].
    pub fn new(queue: Py<Q>, waiter: Q::Waiter, method: Option<&'static str>, try_now: F) -> Self {
        Self { queue, waiter, method, try_now }
    }
}

impl<Q: WaitingQueue, F> AsyncCall for Call<Q, F>
where
    F: Fn(Python<'_>, &Q, &mut Q::Waiter, Otherwise) -> PyResult<Option<Py<PyAny>>> + Send + Sync,
{
    fn try_now(&mut self, py: Python<'_>, otherwise: Otherwise) -> PyResult<Option<Py<PyAny>>> {
        (self.try_now)(py, self.queue.get(), &mut self.waiter, otherwise)
    }

    fn sleeps(&mut self) -> (&mut dyn WaitingPlace, &Arc<EventLoops>) {
        (&mut self.waiter, self.queue.get().event_loops())
    }

    fn method(&self) -> Option<String> {
        self.method.map(|method| format!("{}.{method}", <Q as PyClass>::NAME))
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.queue)
    }
}

/// Adds the methods that are word for word the same in both classes.
macro_rules! shared_methods {
    ($queue:ty) => {
        #[pymethods]
        impl $queue {
            /// Take the next item if there is one: ``get(block=False)``.
            ///
            /// Raises:
            ///     queue.Empty: there is none.
            ///     ShutDown: as :meth:`get`.
            fn get_nowait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                $crate::waiting::queue::get_nowait(self, py)
            }

            /// Wait from a coroutine as :meth:`join` does: ``await queue.join_async()``.
            #[pyo3(signature = (timeout=None))]
            fn join_async(
                slf: Py<Self>,
                #[pyo3(from_py_with = $crate::arguments::timeout)] timeout: Option<f64>,
            ) -> PyResult<$crate::waiting::awaitable::QueueAwaitable> {
                $crate::waiting::queue::join_async(slf, timeout)
            }

            /// Return an iterator that takes items as :meth:`get` does, until the shutdown: ``for item in queue.stream()``.
            fn stream(slf: Py<Self>) -> $crate::waiting::stream::ItemStream {
                $crate::waiting::stream::ItemStream(Box::new(slf))
            }

            /// Return an iterator that takes items as :meth:`get_async` does: ``async for item in queue.stream_async()``.
            fn stream_async(slf: Py<Self>) -> $crate::waiting::stream::AsyncItemStream {
                $crate::waiting::stream::AsyncItemStream(Box::new(slf))
            }

            fn __enter__(slf: Py<Self>) -> Py<Self> {
                slf
            }

            /// Shuts the queue down; waiting items can still be taken.
            #[pyo3(signature = (*_exception))]
            fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) {
                self.shutdown(py, false);
            }

            fn __aenter__(slf: Py<Self>) -> $crate::waiting::awaitable::QueueAwaitable {
                $crate::waiting::awaitable::QueueAwaitable::ready(slf.into_any())
            }

            /// Shuts the queue down, as `__exit__` does: nothing is waited for.
            #[pyo3(signature = (*_exception))]
            fn __aexit__(
                &self,
                py: Python<'_>,
                _exception: &Bound<'_, pyo3::types::PyTuple>,
            ) -> $crate::waiting::awaitable::QueueAwaitable {
                self.shutdown(py, false);
                $crate::waiting::awaitable::QueueAwaitable::ready(py.None())
            }
        }
    };
}
pub(crate) use shared_methods;
