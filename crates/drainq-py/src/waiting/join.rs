//! `join` and `join_async`: waits until each item that was put is done.

use super::WaitingPlace;
use super::awaitable::{AsyncCall, QueueAwaitable};
use super::blocking::{Otherwise, until};
use super::event_loops::EventLoops;
use crate::deadline::MayWait;
use crate::errors;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyBool;
use std::ffi::CStr;
use std::sync::Arc;

/// A queue that knows how many items are not done.
pub trait Joined: Send + Sync {
    /// Whether each item that was put is done or was removed.
    fn is_finished(&self) -> bool;

    /// Makes a waiter for that moment.
    fn joiner(&self) -> Box<dyn WaitingPlace>;

    /// Returns the event loops of the queue.
    fn event_loops(&self) -> &Arc<EventLoops>;

    /// Shows the queue to the garbage collector.
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError>;
}

fn joined(queue: &dyn Joined, otherwise: Otherwise) -> Option<bool> {
    let is_finished = queue.is_finished();
    (is_finished || otherwise == Otherwise::GiveUp).then_some(is_finished)
}

/// Waits until each item is done; false if the time ran out.
pub fn join(py: Python<'_>, queue: &dyn Joined, timeout: Option<f64>) -> PyResult<bool> {
    let is_finished =
        until(py, queue.joiner(), MayWait::new(true, timeout)?, |_, otherwise| Ok(joined(queue, otherwise)))?;
    Ok(is_finished.unwrap_or(false))
}

/// Makes the coroutine that waits until each item is done.
pub fn join_async(queue: impl Joined + 'static, timeout: Option<f64>) -> PyResult<QueueAwaitable> {
    let place = queue.joiner();
    QueueAwaitable::within(Join { queue, place }, timeout)
}

/// Makes the exception for a `task_done` that belongs to no item.
#[cold]
pub fn too_many() -> PyErr {
    errors::bad_value("task_done() was called more often than items were taken")
}

struct Join<Q> {
    queue: Q,
    place: Box<dyn WaitingPlace>,
}

impl<Q: Joined> AsyncCall for Join<Q> {
    fn try_now(&mut self, py: Python<'_>, otherwise: Otherwise) -> PyResult<Option<Py<PyAny>>> {
        let joined = joined(&self.queue, otherwise);
        Ok(joined.map(|is_finished| PyBool::new(py, is_finished).to_owned().into_any().unbind()))
    }

    fn sleeps(&mut self) -> (&mut dyn WaitingPlace, &Arc<EventLoops>) {
        (&mut *self.place, self.queue.event_loops())
    }

    fn never_awaited(&self) -> Option<&'static CStr> {
        Some(c"coroutine 'join_async' was never awaited")
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.queue.traverse(visit)
    }
}
