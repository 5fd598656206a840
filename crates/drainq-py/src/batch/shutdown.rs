//! The shutdown of a queue: by hand, and as a part of the interpreter's exit (`interpreter_exit.rs`).

use super::coroutines;
use super::interpreter_exit::{self, Live};
use super::queue::BatchQueue;
use super::shared_queue::SharedQueue;
use super::shared_scheduler;
use super::types::item::Item;
use crate::arguments;
use crate::ctrl_c;
use crate::deadline::Deadline;
use crate::errors;
use crate::gil;
use drainq_core::batch::config::EXIT_TIMEOUT;
use drainq_core::batch::drop_counts::DropReason;
use drainq_core::batch::flush::{Flush, Flushed};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyTuple};

impl SharedQueue {
    /// Ends the queue by `deadline`; true if nothing was abandoned, by this call or an earlier one.
    pub fn end(&self, py: Python<'_>, deadline: Deadline) -> PyResult<bool> {
        let process = self.process();
        let queue = process.queue.clone();
        queue.close();
        let drained = ctrl_c::wait(py, deadline, |slice| queue.wait_drained(slice).then_some(()))?.is_some();
        let abandoned = if drained { 0 } else { queue.cut().abandoned };
        let is_clean = drained && !queue.is_cut();
        if abandoned > 0 {
            self.drops.add(py, DropReason::Abandoned, abandoned);
        }
        if is_clean && process.is_started() && self.pool().is_some() {
            // The threads of a shared scheduler may be busy with other queues.
            self.call_on_close(py);
        }
        // Once the interpreter goes away the threads have ended, or never will.
        if is_clean && !interpreter_exit::is_over() {
            let callers = process.callers.clone();
            ctrl_c::wait(py, deadline, |slice| callers.wait_over(slice).then_some(()))?;
            self.join_threads(py, deadline)?;
        }
        self.drops.flush(py);
        Ok(is_clean)
    }

    /// Waits until the drain threads are gone; they have nothing left to do. A thread that is still there
    /// at the deadline, or when the wait is interrupted, is waited for by the next call.
    fn join_threads(&self, py: Python<'_>, deadline: Deadline) -> PyResult<()> {
        let current = gil::call_method(py.import("threading")?.as_any(), "current_thread", [])?;
        let threads: Vec<_> = self.process().threads.lock().iter().map(|thread| thread.clone_ref(py)).collect();
        for thread in threads {
            let thread = thread.bind(py);
            while !thread.is(&current) && gil::call_method(thread, "is_alive", [])?.is_truthy()? {
                if deadline.passed() {
                    return Ok(());
                }
                let slice = PyFloat::new(py, ctrl_c::slice(deadline).as_secs_f64());
                gil::call_method(thread, "join", [slice.as_any()])?;
            }
            // Let go of when the lock is free again: the end of a thread's object may run Python code.
            let _gone: Vec<_> = self.process().threads.lock().extract_if(.., |other| other.is(thread)).collect();
        }
        Ok(())
    }

    /// Seconds that the end of the process waits for this queue.
    fn exit_timeout(&self) -> f64 {
        self.shutdown_timeout.unwrap_or(EXIT_TIMEOUT.as_secs_f64())
    }
}

impl Live for SharedQueue {
    fn is_running(&self) -> bool {
        self.queue().is_running()
    }

    /// Waits for half of the time only: the rest belongs to the shutdown.
    fn flush_at_exit(&self, py: Python<'_>) -> PyResult<()> {
        let deadline = Deadline::after("shutdown_timeout", Some(self.exit_timeout() / 2.0))?;
        let mut flush = Flush::of_queue(self.queue());
        ctrl_c::wait(py, deadline, |slice| Some(flush.wait(slice)).filter(|state| *state != Flushed::NotYet)).map(drop)
    }

    fn end_at_exit(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, Deadline::after("shutdown_timeout", Some(self.exit_timeout()))?).map(drop)
    }

    fn counted(&self) -> Option<&drainq_core::batch::BatchQueue<Item>> {
        Some(self.queue())
    }
}

impl BatchQueue {
    /// Raises ShutDown for a block that the queue would take no item in.
    fn refuse_if_shut_down(&self, py: Python<'_>) -> PyResult<()> {
        if self.shared().queue().is_running() {
            return Ok(());
        }
        let name = self.shared().name();
        Err(errors::SHUT_DOWN
            .error(py, format!("queue {name:?} was shut down and takes no more items; make a new one to enter")))
    }
}

#[pymethods]
impl BatchQueue {
    /// Accept no more items, handle the queued ones, and end the drain threads.
    ///
    /// Producers that wait for room are released. A second call waits for the first.
    ///
    /// Args:
    ///     timeout: seconds to wait; None: the configuration's ``shutdown_timeout``. After them, the
    ///         items that were not handled, including the batch of a handler that hangs, are counted as
    ///         ``abandoned`` and reported.
    /// Returns:
    ///     True if everything accepted was handed to a handler, or counted as failed or
    ///     unrouted; False if something was abandoned.
    /// Raises:
    ///     WouldDeadlock: called from a handler of this queue.
    #[pyo3(signature = (timeout=None))]
    pub fn shutdown(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<bool> {
        let timeout = timeout.or(self.shared().shutdown_timeout);
        let deadline = Deadline::after("timeout", timeout)?;
        self.refuse_in_handler(py, "shutdown")?;
        self.shared().end(py, deadline)
    }

    /// Shut down as ``shutdown`` does, from a coroutine; a thread of asyncio's executor waits meanwhile.
    ///
    /// Args:
    ///     timeout: as ``shutdown``. If the wait is cancelled, the shutdown continues.
    /// Returns:
    ///     The result of ``shutdown``, when awaited.
    /// Raises:
    ///     WouldDeadlock: awaited in a handler of this queue.
    #[pyo3(signature = (timeout=None))]
    fn shutdown_async<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        coroutines::in_thread(slf.as_any(), slf.get().shared().number(), "shutdown", timeout)
    }

    fn __aenter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().refuse_if_shut_down(slf.py())?;
        coroutines::entered(slf.as_any())
    }

    #[pyo3(signature = (*_exception))]
    fn __aexit__<'py>(slf: &Bound<'py, Self>, _exception: &Bound<'_, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        coroutines::in_thread(slf.as_any(), slf.get().shared().number(), "_leave", None)
    }

    /// Shuts the queue down for ``async with``, which hides no exception.
    fn _leave(&self, py: Python<'_>, _timeout: Option<f64>) -> PyResult<()> {
        self.shutdown(py, None).map(drop)
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().refuse_if_shut_down(slf.py())?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.shutdown(py, None).map(drop)
    }
}

/// Shuts several queues down, and then ends the shared schedulers; true if nothing was abandoned.
///
/// `timeout` is in seconds, for all of them together; None: each queue's own setting.
#[pyfunction]
pub fn end_queues(
    py: Python<'_>,
    queues: Vec<Py<BatchQueue>>,
    #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
) -> PyResult<bool> {
    let queues: Vec<_> = queues.iter().map(|queue| queue.get().shared().clone()).collect();
    let common = Deadline::after("timeout", timeout)?;
    if let Some(shared) = queues.iter().find(|shared| shared.queue().is_draining_here()) {
        return Err(errors::WOULD_DEADLOCK.error(
            py,
            format!("shutdown_all was called from a handler of queue {:?}, which it would wait for", shared.name()),
        ));
    }
    let mut is_clean = true;
    for shared in queues {
        let deadline = match timeout {
            Some(_) => common,
            None => Deadline::after("shutdown_timeout", shared.shutdown_timeout)?,
        };
        is_clean &= shared.end(py, deadline)?;
    }
    shared_scheduler::stop_all();
    Ok(is_clean)
}
