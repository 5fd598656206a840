//! What `get_async()` and `put_async()` return: a coroutine in Rust.
//!
//! It has `send`, `throw`, `close` and `__await__`, so asyncio takes it wherever it takes a
//! coroutine. Each step tries first and sleeps on a future of the running loop only if that
//! fails; it takes or puts the item when it is resumed, in one step with returning it. So a
//! task that is cancelled while it sleeps has neither taken nor put anything.

use super::blocking::Attempt as Try;
use super::handle::Wait;
use super::loops::{Sleeper, Sleepers};
use super::queue::MultiQueue;
use super::sub_queue::SubQueue;
use crate::{errors, gil};
use drainq_core::multi::Nothing;
use pyo3::exceptions::{PyBaseException, PyRuntimeWarning, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTraceback, PyTuple, PyType};
use std::sync::Arc;

/// What to try at each step.
pub enum Attempt {
    /// `get_async()`.
    Get(Py<MultiQueue>),
    /// `async for`: as get, but shutdown ends the iteration.
    Next(Py<MultiQueue>),
    /// `put_async(item)`.
    Put(Py<SubQueue>, Py<PyAny>),
}

/// What a step found.
enum Step {
    Done(Py<PyAny>),
    Later,
}

/// A sleeping task's place in line. The fields drop in order: first the future is forgotten,
/// then the line is left, which passes a wake-up on.
struct Asleep {
    sleeper: Option<Sleeper>,
    wait: Wait,
    /// What the loop gets at each step: an iterator over the future.
    future: Option<Py<PyAny>>,
}

/// A coroutine that takes or puts one item; ``await`` it, once.
#[pyclass(generic, module = "drainq")]
pub struct QueueAwaitable {
    attempt: Option<Attempt>,
    asleep: Option<Asleep>,
    is_started: bool,
}

impl QueueAwaitable {
    pub fn new(attempt: Attempt) -> Self {
        Self { attempt: Some(attempt), asleep: None, is_started: false }
    }

    fn try_once(&self, py: Python<'_>) -> PyResult<Step> {
        let got = match self.attempt.as_ref() {
            None => {
                return Err(errors::bad_state("this has been awaited already; call the method again"));
            }
            Some(Attempt::Get(queue)) => queue.get().take_or_wait(py)?,
            Some(Attempt::Next(queue)) => match queue.get().take(py)? {
                Err(Nothing::ShutDown) => return Err(errors::stop_async_iteration()),
                taken => taken.ok(),
            },
            Some(Attempt::Put(sub, item)) => sub.get().try_put(py, item, Try::MayWait)?.then(|| py.None()),
        };
        Ok(got.map_or(Step::Later, Step::Done))
    }

    /// Registers with the running loop and the line; returns what the loop sleeps on.
    fn fall_asleep(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let event_loop = RUNNING.import(py, "asyncio", "get_running_loop")?.call0()?;
        let future = event_loop.call_method0("create_future")?;
        let iterator = future.call_method0("__await__")?.unbind();
        let mut asleep = match self.asleep.take() {
            Some(asleep) => asleep,
            None => Asleep { sleeper: None, wait: self.line()?, future: None },
        };
        let sleeper = Sleeper::new(&self.sleepers()?, &event_loop, future.unbind());
        asleep.wait.enter(sleeper.waker());
        asleep.sleeper = Some(sleeper);
        asleep.future = Some(iterator.clone_ref(py));
        self.asleep = Some(asleep);
        iterator.call_method0(py, "__next__")
    }

    fn line(&self) -> PyResult<Wait> {
        match self.attempt.as_ref() {
            Some(Attempt::Get(queue) | Attempt::Next(queue)) => Ok(queue.get().core().getter()),
            Some(Attempt::Put(sub, _)) => Ok(sub.get().core().putter()),
            None => Err(errors::bad_state("this has ended")),
        }
    }

    fn sleepers(&self) -> PyResult<Arc<Sleepers>> {
        match self.attempt.as_ref() {
            Some(Attempt::Get(queue) | Attempt::Next(queue)) => Ok(queue.get().sleepers.clone()),
            Some(Attempt::Put(sub, _)) => Ok(sub.get().sleepers.clone()),
            None => Err(errors::bad_state("this has ended")),
        }
    }

    /// Leaves the line; a put that was begun and not done counts as rejected.
    fn end(&mut self, is_done: bool) {
        self.asleep = None;
        if let Some(Attempt::Put(sub, _)) = self.attempt.take()
            && self.is_started
            && !is_done
        {
            sub.get().reject_one();
        }
    }

    /// Warns as Python does of a coroutine that is dropped before it ran: a put whose ``await`` was
    /// forgotten would otherwise lose its item without a word.
    fn warn_if_never_awaited(&self) {
        let name = match self.attempt.as_ref() {
            Some(Attempt::Get(_)) if !self.is_started => c"coroutine 'MultiQueue.get_async' was never awaited",
            Some(Attempt::Put(..)) if !self.is_started => c"coroutine 'SubQueue.put_async' was never awaited",
            _ => return,
        };
        gil::held(|py| {
            // It may be dropped while an exception is on its way, which must stay what it is.
            let on_its_way = PyErr::take(py);
            let category = py.get_type::<PyRuntimeWarning>();
            if let Err(error) = PyErr::warn(py, &category, name, 1) {
                error.write_unraisable(py, None);
            }
            if let Some(error) = on_its_way {
                error.restore(py);
            }
        });
    }

    fn advance(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let future = self.asleep.as_ref().and_then(|asleep| asleep.future.as_ref());
        if let Some(future) = future {
            // Not done yet: sleep on. A failed future (its loop cancelled it) raises here.
            match future.call_method0(py, "__next__") {
                Err(error) if error.is_instance_of::<PyStopIteration>(py) => {}
                unfinished => return unfinished,
            }
        }
        self.is_started = true;
        match self.try_once(py)? {
            Step::Later => self.fall_asleep(py),
            Step::Done(value) => {
                self.end(true);
                Err(errors::stop_iteration(value))
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
            self.end(false);
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
        self.end(false);
        let error = exception(kind, value)?;
        if traceback.is_some() {
            error.set_traceback(py, traceback);
        }
        Err(error)
    }

    /// Ends it; no item is taken or put.
    fn close(&mut self) {
        self.end(false);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.attempt.as_ref() {
            Some(Attempt::Get(queue) | Attempt::Next(queue)) => visit.call(queue)?,
            Some(Attempt::Put(sub, item)) => {
                visit.call(sub)?;
                visit.call(item)?;
            }
            None => {}
        }
        match self.asleep.as_ref().and_then(|asleep| asleep.future.as_ref()) {
            Some(future) => visit.call(future),
            None => Ok(()),
        }
    }

    fn __clear__(&mut self) {
        self.end(false);
    }
}

impl Drop for QueueAwaitable {
    fn drop(&mut self) {
        self.warn_if_never_awaited();
        self.end(false);
    }
}

/// The exception that ``throw(kind, value)`` of a generator raises.
fn exception(kind: Bound<'_, PyAny>, value: Option<Bound<'_, PyAny>>) -> PyResult<PyErr> {
    let Ok(class) = kind.cast::<PyType>() else {
        return match value {
            Some(_) => Err(errors::bad_type("an exception that is an instance takes no separate value")),
            None => Ok(PyErr::from_value(kind)),
        };
    };
    if !class.is_subclass_of::<PyBaseException>()? {
        return Ok(PyErr::from_value(kind)); // which says that it is no exception
    }
    Ok(PyErr::from_value(match value {
        None => class.call0()?,
        Some(value) if value.is_instance(class)? => value,
        Some(value) => match value.cast::<PyTuple>() {
            Ok(arguments) => class.call1(arguments.clone())?,
            Err(_) => class.call1((value,))?,
        },
    }))
}
