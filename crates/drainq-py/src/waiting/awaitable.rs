//! `QueueAwaitable`: the result of `get_async()` and `put_async()`, a coroutine in Rust.
//!
//! The coroutine has `send`, `throw`, `close` and `__await__`, so asyncio accepts it in place of a coroutine. Each step
//! tries the call ([`AsyncCall`]) and sleeps on a future of the running loop only if the call has to wait. A resumed
//! coroutine takes or puts the item and returns the result in one step. So a task that is cancelled while it sleeps has
//! done neither.
//!
//! A timeout is a timer of the loop, which ends the sleep. The resumed coroutine tries once more before it gives up.

use super::WaitingPlace;
use super::blocking::Otherwise;
use super::event_loops::{self, EventLoops, SleepingTask};
use crate::deadline::Deadline;
use crate::gil::PythonFunction;
use crate::{errors, gil, pickling};
use pyo3::exceptions::{PyRuntimeWarning, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use std::ffi::CString;
use std::sync::Arc;

/// The most items with a key to hash that a coroutine puts before it lets the other tasks run.
pub const IN_A_TURN: usize = 1_000;

/// A call that a coroutine tries until it succeeds. Dropping the call removes it from the waiters.
pub trait AsyncCall: Send + Sync {
    /// Tries the call; returns its result, or `None` if the call has to wait or gives up.
    fn try_now(&mut self, py: Python<'_>, otherwise: Otherwise) -> PyResult<Option<Py<PyAny>>>;

    /// Whether a try without a result is continued after the other tasks have had a turn, without a wait.
    fn gives_way(&self) -> bool {
        false
    }

    /// Returns the exception that ends the call, perhaps with an attribute, such as the number of accepted items.
    fn marked(&self, _py: Python<'_>, error: PyErr) -> PyErr {
        error
    }

    /// Returns the waiter for what the call needs, and the event loops of the queue, which keep the futures of sleeping
    /// tasks.
    fn sleeps(&mut self) -> (&mut dyn WaitingPlace, &Arc<EventLoops>);

    /// Makes the exception for a call whose time ran out.
    fn timed_out(&self, py: Python<'_>) -> PyErr {
        errors::EMPTY.error(py, "no item came in time")
    }

    /// Counts a call that was started and then given up.
    fn count_given_up(&self) {}

    /// Returns the method that made the call, for the warning if it is never started; `None` if that loses nothing.
    fn method(&self) -> Option<String> {
        None
    }

    /// Shows the objects that the call holds to the garbage collector.
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError>;
}

/// A call that has its result.
struct Ready(Py<PyAny>);

impl AsyncCall for Ready {
    fn try_now(&mut self, py: Python<'_>, _otherwise: Otherwise) -> PyResult<Option<Py<PyAny>>> {
        Ok(Some(self.0.clone_ref(py)))
    }

    fn sleeps(&mut self) -> (&mut dyn WaitingPlace, &Arc<EventLoops>) {
        unreachable!("the first try has a result")
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.0)
    }
}

/// A task that sleeps.
struct Sleep {
    _task: SleepingTask,
    /// The iterator over the future, which the event loop gets at each step.
    future: Py<PyAny>,
    /// The loop's handle of the call that ends the sleep at the deadline.
    alarm: Option<Py<PyAny>>,
}

/// A coroutine that takes or puts items; ``await`` it, once.
#[pyclass(generic, module = "drainq")]
pub struct QueueAwaitable {
    /// Dropped after `sleep`: first the future is forgotten, then the call leaves the waiters, which gives an unused
    /// token to the next one.
    call: Option<Box<dyn AsyncCall>>,
    sleep: Option<Sleep>,
    is_started: bool,
    /// Seconds from the first sleep to the deadline.
    timeout: Option<f64>,
    /// The deadline on the clock of the event loop.
    deadline: Option<f64>,
}

impl QueueAwaitable {
    /// Makes a coroutine that makes this call, without a limit of time.
    pub fn new(call: impl AsyncCall + 'static) -> Self {
        Self::limited(call, None)
    }

    /// Makes a coroutine that makes this call and waits at most `timeout` seconds.
    ///
    /// Raises ValueError if `timeout` is negative or not a number.
    pub fn within(call: impl AsyncCall + 'static, timeout: Option<f64>) -> PyResult<Self> {
        Deadline::after("timeout", timeout).map(|_| Self::limited(call, timeout))
    }

    /// Makes a coroutine that returns `value` without waiting.
    pub fn ready(value: Py<PyAny>) -> Self {
        Self::new(Ready(value))
    }

    fn limited(call: impl AsyncCall + 'static, timeout: Option<f64>) -> Self {
        Self { call: Some(Box::new(call)), sleep: None, is_started: false, timeout, deadline: None }
    }

    fn call(&mut self) -> PyResult<&mut dyn AsyncCall> {
        match &mut self.call {
            Some(call) => Ok(&mut **call),
            None => Err(errors::bad_state("this has been awaited already; call the method again")),
        }
    }

    /// Whether the call may still wait.
    fn otherwise(&self, py: Python<'_>) -> PyResult<Otherwise> {
        let is_over = match (self.timeout, self.deadline) {
            (Some(timeout), None) => timeout <= 0.0,
            (_, Some(deadline)) => time(&running_loop(py)?)? >= deadline,
            (None, None) => false,
        };
        Ok(if is_over { Otherwise::GiveUp } else { Otherwise::Wait })
    }

    /// Registers the task with the running loop and as a waiter; returns the future of the loop.
    fn fall_asleep(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let event_loop = running_loop(py)?;
        let future = gil::call_method(&event_loop, "create_future", [])?;
        let iterator = gil::call_method(&future, "__await__", [])?;
        if let (Some(timeout), None) = (self.timeout, self.deadline) {
            self.deadline = Some(time(&event_loop)? + timeout);
        }
        let alarm = self.deadline.map(|deadline| event_loops::resume_at(&event_loop, deadline, &future)).transpose()?;
        let (waiter, event_loops) = self.call()?.sleeps();
        let task = SleepingTask::new(event_loops, &event_loop, future.unbind());
        waiter.enter(task.waker());
        self.sleep = Some(Sleep { _task: task, future: iterator.clone().unbind(), alarm: alarm.map(Bound::unbind) });
        gil::call_method(&iterator, "__next__", []).map(Bound::unbind)
    }

    /// Ends the sleep, and cancels its alarm.
    fn wake_up(&mut self, py: Python<'_>) {
        let alarm = self.sleep.take().and_then(|sleep| sleep.alarm);
        if let Some(Err(error)) = alarm.map(|alarm| gil::call_method(alarm.bind(py), "cancel", [])) {
            event_loops::report(py, error);
        }
    }

    /// Ends the coroutine, and counts a call that was started and has no result. Calls no Python code, because a
    /// finaliser must not. So an alarm may stay, and finds a future without a task.
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
        let never_awaited = self.call.as_ref().filter(|_| !self.is_started).and_then(|call| call.method());
        let message = never_awaited.map(|method| CString::new(format!("coroutine '{method}' was never awaited")));
        let Some(Ok(message)) = message else { return };
        gil::held(|py| {
            // The coroutine may be dropped while an exception is being raised, which must stay set.
            let on_its_way = PyErr::take(py);
            let category = py.get_type::<PyRuntimeWarning>();
            if let Err(error) = PyErr::warn(py, &category, &message, 1) {
                error.write_unraisable(py, None);
            }
            if let Some(error) = on_its_way {
                error.restore(py);
            }
        });
    }

    fn advance(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if let Some(sleep) = &self.sleep {
            // Not done yet: continue to sleep. A failed future (its loop cancelled it) raises here.
            match gil::call_method(sleep.future.bind(py), "__next__", []).map(Bound::unbind) {
                Err(error) if error.is_instance_of::<PyStopIteration>(py) => {}
                unfinished => return unfinished,
            }
        }
        self.is_started = true;
        let otherwise = self.otherwise(py)?;
        match (self.call()?.try_now(py, otherwise)?, otherwise) {
            (None, _) if self.call()?.gives_way() => {
                self.wake_up(py);
                Ok(py.None())
            }
            (None, Otherwise::Wait) => {
                self.wake_up(py);
                self.fall_asleep(py)
            }
            (None, Otherwise::GiveUp) => Err(self.call()?.timed_out(py)),
            (Some(result), _) => {
                self.wake_up(py);
                self.call = None; // it has its result, so nothing is given up when the step ends the coroutine
                Err(errors::stop_iteration(result))
            }
        }
    }
}

/// Returns the event loop that runs the current task.
fn running_loop(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static RUNNING: PythonFunction = PythonFunction::of("asyncio", "get_running_loop");
    RUNNING.call(py, ())
}

/// Returns the time on the clock of an event loop.
fn time(event_loop: &Bound<'_, PyAny>) -> PyResult<f64> {
    gil::call_method(event_loop, "time", [])?.extract()
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
            self.close(py);
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
    ///     kind: an exception, or a class of exceptions, which is called without arguments.
    ///     value: the exception, as older callers pass it after its class.
    ///     traceback: not used; the exception has its own.
    #[pyo3(signature = (kind, value=None, traceback=None))]
    fn throw(
        &mut self,
        kind: Bound<'_, PyAny>,
        value: Option<Bound<'_, PyAny>>,
        traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        drop(traceback);
        let (py, error) = (kind.py(), PyErr::from_value(value.unwrap_or(kind)));
        let error = match &self.call {
            Some(call) if self.is_started => call.marked(py, error),
            _ => error,
        };
        self.close(py);
        Err(error)
    }

    /// Ends it; no item is taken or put.
    fn close(&mut self, py: Python<'_>) {
        self.wake_up(py);
        self.give_up();
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        pickling::refuse(slf, "it waits for a queue of this process", "what awaiting it returns")
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Some(call) = &self.call {
            call.traverse(&visit)?;
        }
        let Some(sleep) = &self.sleep else { return Ok(()) };
        visit.call(&sleep.future)?;
        visit.call(&sleep.alarm)
    }

    fn __clear__(&mut self) {
        self.warn_if_never_awaited();
        self.give_up();
    }
}

impl Drop for QueueAwaitable {
    fn drop(&mut self) {
        self.warn_if_never_awaited();
        self.give_up();
    }
}
