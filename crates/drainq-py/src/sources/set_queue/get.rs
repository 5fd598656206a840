//! `get`, `get_nowait` and `get_many`: items out of a set queue.

use super::SetQueue;
use super::state::WaitFor;
use super::waiting::WaitingCall;
use crate::arguments;
use crate::deadline::MayWait;
use crate::errors;
use pyo3::prelude::*;
use pyo3::types::PyList;

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
        let mut may_wait = MayWait::new(block, timeout)?;
        let mut waiting = WaitingCall::new(self, WaitFor::Item);
        loop {
            let now = self.now(py)?;
            let mut state = self.state.lock();
            if let Some(taken) = state.take(py, now) {
                self.release(state);
                return Ok(taken.item);
            }
            if state.closed {
                drop(state);
                return Err(errors::SHUT_DOWN.error(py, "the queue is shut down and empty"));
            }
            let MayWait::Until(deadline) = may_wait else {
                drop(state);
                return Err(errors::EMPTY.error(py, "no item is waiting"));
            };
            if !waiting.wait(py, state, 0, deadline)? {
                may_wait = MayWait::No;
            }
        }
    }

    /// Take the first item if there is one: ``get(block=False)``.
    fn get_nowait<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, false, None)
    }

    /// Take up to ``n`` items, first to last, without waiting; perhaps an empty list.
    ///
    /// Raises:
    ///     ValueError: ``n`` is negative.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::n)] n: i64,
    ) -> PyResult<Bound<'py, PyList>> {
        let n = usize::try_from(n).map_err(|_| errors::bad_value(format!("n must be >= 0, got {n}")))?;
        let now = self.now(py)?;
        let mut state = self.state.lock();
        let n = n.min(state.queue.len());
        let taken: Vec<_> = (0..n).map_while(|_| state.take(py, now)).collect();
        self.release(state);
        PyList::new(py, taken.into_iter().map(|taken| taken.item))
    }
}
