//! The waits of `flush_async` and `shutdown_async`: a coroutine that ends with a flush, or with the last handler call.
//!
//! The coroutines that users get are `async def` functions of `drainq/aio.py`.

use super::BatchQueue;
use crate::arguments;
use crate::batch::waiting_tasks::TaskPlace;
use crate::waiting::WaitingPlace;
use crate::waiting::awaitable::{AsyncCall, QueueAwaitable};
use crate::waiting::blocking::Otherwise;
use crate::waiting::event_loops::EventLoops;
use drainq_core::batch::flush::{Flush, Flushed};
use drainq_core::sync::Mutex;
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use std::sync::Arc;

/// The call that waits until `state` has an answer, which then stays.
struct WhenOver {
    queue: Py<BatchQueue>,
    state: Arc<dyn Fn() -> Option<bool> + Send + Sync>,
    place: TaskPlace,
}

impl WhenOver {
    fn new(queue: Py<BatchQueue>, state: impl Fn() -> Option<bool> + Send + Sync + 'static) -> Self {
        let state = Arc::new(state);
        let is_over = state.clone();
        let tasks = queue.get().shared().process().waiting_tasks.clone();
        Self { queue, state, place: TaskPlace::for_end(tasks, move || is_over().is_some()) }
    }
}

impl AsyncCall for WhenOver {
    fn try_now(&mut self, py: Python<'_>, otherwise: Otherwise) -> PyResult<Option<Py<PyAny>>> {
        let state = (self.state)().or((otherwise == Otherwise::GiveUp).then_some(false));
        Ok(state.map(|answer| {
            self.queue.get().shared().drops.flush(py);
            PyBool::new(py, answer).to_owned().into_any().unbind()
        }))
    }

    fn sleeps(&mut self) -> (&mut dyn WaitingPlace, &Arc<EventLoops>) {
        (&mut self.place, &self.queue.get().shared().process().waiting_tasks.event_loops)
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.queue)
    }
}

#[pymethods]
impl BatchQueue {
    /// Makes the coroutine that waits for a flush: the result of ``flush``.
    fn _when_flushed(
        slf: &Bound<'_, Self>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<QueueAwaitable> {
        slf.get().refuse_on_drain_thread(slf.py(), "flush_async")?;
        let flush = Flush::of_queue(slf.get().shared().queue());
        flush.hurry();
        let flush = Mutex::new(flush);
        let state = move || {
            let state = flush.lock().state();
            (state != Flushed::NotYet).then_some(state == Flushed::All)
        };
        QueueAwaitable::within(WhenOver::new(slf.clone().unbind(), state), timeout)
    }

    /// Closes the queue, and makes the coroutine that waits for the last handler call: False if the time ran out.
    fn _when_ended(
        slf: &Bound<'_, Self>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<QueueAwaitable> {
        slf.get().refuse_on_drain_thread(slf.py(), "shutdown_async")?;
        let shared = slf.get().shared();
        shared.close();
        let (process, ends_by_itself) = (shared.process(), shared.pool().is_none());
        let (queue, callers) = (process.queue.clone(), process.callers.clone());
        let is_over = move || queue.is_cut() || (queue.is_drained() && (!ends_by_itself || callers.is_over()));
        let call = WhenOver::new(slf.clone().unbind(), move || is_over().then_some(true));
        QueueAwaitable::within(call, timeout.or(shared.shutdown_timeout))
    }
}
