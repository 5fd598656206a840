//! `QueueAwaitable`: what `get_async()` and `put_async()` return, a coroutine in Rust.
//!
//! The coroutine has `send`, `throw`, `close` and `__await__`, so asyncio accepts it in place of a coroutine. Each step
//! tries the call ([`AsyncCall`]) and sleeps on a future of the running loop only if the call has to wait. A resumed
//! coroutine takes or puts the item and returns the result in one step. So a task that is cancelled while it sleeps has
//! done neither.
//!
//! This file names neither `MultiQueue` nor `SubQueue`: a step calls a trait.

use super::core_types::Wait;
use super::event_loops::{EventLoops, SleepingTask};
use crate::{errors, gil, pickling};
use pyo3::exceptions::{PyBaseException, PyRuntimeWarning, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTraceback, PyTuple, PyType};
use std::ffi::CStr;
use std::sync::Arc;

/// A call that a coroutine tries until it succeeds.
pub trait AsyncCall: Send + Sync {
    /// Tries the call: its result, or `None` if the call has to wait.
    fn try_now(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>>;

    /// Returns a waiter for the item or the room that the call needs.
    fn waiter(&self) -> Wait;

    /// Returns the event loops of the queue, which keep the futures of sleeping tasks.
    fn event_loops(&self) -> &Arc<EventLoops>;

    /// Counts a call that was started and then given up.
    fn count_given_up(&self) {}

    /// Returns the warning for a call that was never started; `None` if such a call loses nothing.
    fn never_awaited(&self) -> Option<&'static CStr>;

    /// Shows the objects that the call holds to the garbage collector.
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError>;
}

/// A task that sleeps. The fields drop in order: first the future is forgotten, then the waiter leaves, which
/// gives the waiter's token to the next one.
struct Sleep {
    task: Option<SleepingTask>,
    waiter: Wait,
    /// The iterator over the future, which the event loop gets at each step.
    future: Option<Py<PyAny>>,
}

/// A coroutine that takes or puts one item; ``await`` it, once.
#[pyclass(generic, module = "drainq")]
pub struct QueueAwaitable {
    call: Option<Box<dyn AsyncCall>>,
    sleep: Option<Sleep>,
    is_started: bool,
}

impl QueueAwaitable {
    /// Makes a coroutine that makes this call.
    pub fn new(call: impl AsyncCall + 'static) -> Self {
        Self { call: Some(Box::new(call)), sleep: None, is_started: false }
    }

    fn call(&self) -> PyResult<&dyn AsyncCall> {
        self.call.as_deref().ok_or_else(|| errors::bad_state("this has been awaited already; call the method again"))
    }

    /// Registers the task with the running loop and as a waiter; returns the future of the loop.
    fn fall_asleep(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let event_loop = gil::call(RUNNING.import(py, "asyncio", "get_running_loop")?, [])?;
        let future = gil::call_method(&event_loop, "create_future", [])?;
        let iterator = gil::call_method(&future, "__await__", [])?.unbind();
        let mut sleep = match self.sleep.take() {
            Some(sleep) => sleep,
            None => Sleep { task: None, waiter: self.call()?.waiter(), future: None },
        };
        let task = SleepingTask::new(self.call()?.event_loops(), &event_loop, future.unbind());
        sleep.waiter.enter(task.waker());
        sleep.task = Some(task);
        sleep.future = Some(iterator.clone_ref(py));
        self.sleep = Some(sleep);
        gil::call_method(iterator.bind(py), "__next__", []).map(Bound::unbind)
    }

    /// Ends the coroutine, and counts a call that was started and has no result.
    fn give_up(&mut self) {
        self.sleep = None;
        if let Some(call) = self.call.take()
            && self.is_started
        {
            call.count_given_up();
        }
    }

    /// Warns as Python does of a coroutine that is dropped before it ran: a put whose ``await`` was forgotten would
    /// otherwise lose its item silently.
    fn warn_if_never_awaited(&self) {
        let never_awaited = self.call.as_ref().filter(|_| !self.is_started).and_then(|call| call.never_awaited());
        let Some(message) = never_awaited else { return };
        gil::held(|py| {
            // The coroutine may be dropped while an exception is being raised, which must stay set.
            let on_its_way = PyErr::take(py);
            let category = py.get_type::<PyRuntimeWarning>();
            if let Err(error) = PyErr::warn(py, &category, message, 1) {
                error.write_unraisable(py, None);
            }
            if let Some(error) = on_its_way {
                error.restore(py);
            }
        });
    }

    fn advance(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let future = self.sleep.as_ref().and_then(|sleep| sleep.future.as_ref());
        if let Some(future) = future {
            // Not done yet: sleep on. A failed future (its loop cancelled it) raises here.
            match gil::call_method(future.bind(py), "__next__", []).map(Bound::unbind) {
                Err(error) if error.is_instance_of::<PyStopIteration>(py) => {}
                unfinished => return unfinished,
            }
        }
        self.is_started = true;
        match self.call()?.try_now(py)? {
            None => self.fall_asleep(py),
            Some(result) => {
                self.call = None; // it has its result, so nothing is given up when the step ends the coroutine
                Err(errors::stop_iteration(result))
            }
        }
    }
}

#[pymethods]
impl QueueAwaitable {
    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let step = self.advance(py);
        if step.is_err() {
            self.give_up();
        }
        step
    }

    /// Runs to the next sleep; ``value`` is not used.
    fn send(&mut self, py: Python<'_>, value: Py<PyAny>) -> PyResult<Py<PyAny>> {
        drop(value);
        self.__next__(py)
    }

    /// Ends it with an exception, as a cancelled task does; no item is taken or put.
    ///
    /// Args:
    ///     kind: an exception, or a class of exceptions.
    ///     value: what the class is called with, or an instance of it; None is a call without arguments.
    ///     traceback: what the exception is to have as its traceback.
    #[pyo3(signature = (kind, value=None, traceback=None))]
    fn throw(
        &mut self,
        py: Python<'_>,
        kind: Bound<'_, PyAny>,
        value: Option<Bound<'_, PyAny>>,
        traceback: Option<Bound<'_, PyTraceback>>,
    ) -> PyResult<Py<PyAny>> {
        self.give_up();
        let error = exception(kind, value)?;
        if traceback.is_some() {
            error.set_traceback(py, traceback);
        }
        Err(error)
    }

    /// Ends it; no item is taken or put.
    fn close(&mut self) {
        self.give_up();
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        pickling::refuse(slf, "it waits for a queue of this process", "what awaiting it returns")
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Some(call) = &self.call {
            call.traverse(&visit)?;
        }
        match self.sleep.as_ref().and_then(|sleep| sleep.future.as_ref()) {
            Some(future) => visit.call(future),
            None => Ok(()),
        }
    }

    fn __clear__(&mut self) {
        self.give_up();
    }
}

impl Drop for QueueAwaitable {
    fn drop(&mut self) {
        self.warn_if_never_awaited();
        self.give_up();
    }
}

/// Makes the exception that ``throw(kind, value)`` of a generator raises.
fn exception(kind: Bound<'_, PyAny>, value: Option<Bound<'_, PyAny>>) -> PyResult<PyErr> {
    let Ok(class) = kind.cast::<PyType>() else {
        return match value {
            Some(_) => Err(errors::bad_type("an exception that is an instance takes no separate value")),
            None => Ok(PyErr::from_value(kind)),
        };
    };
    if !class.is_subclass_of::<PyBaseException>()? {
        return Ok(PyErr::from_value(kind)); // a TypeError: this is no exception
    }
    Ok(PyErr::from_value(match value {
        None => gil::call(class, [])?,
        Some(value) if value.is_instance(class)? => value,
        Some(value) => match value.cast::<PyTuple>() {
            Ok(arguments) => gil::call_with(class, arguments)?,
            Err(_) => gil::call(class, [&value])?,
        },
    }))
}
