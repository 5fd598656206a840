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
use crate::errors;
use drainq_core::multi::Nothing;
use pyo3::exceptions::PyStopIteration;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
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
    #[pyo3(signature = (kind, value=None, traceback=None))]
    fn throw(
        &mut self,
        kind: Bound<'_, PyAny>,
        value: Option<Bound<'_, PyAny>>,
        traceback: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        drop(traceback);
        self.end(false);
        Err(PyErr::from_value(value.unwrap_or(kind)))
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
        self.end(false);
    }
}
