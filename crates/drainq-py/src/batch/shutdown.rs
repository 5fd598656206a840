//! The shutdown of a queue: by hand, and as a part of the interpreter's exit (`exit.rs`).

use super::drops::Reason;
use super::exit::Live;
use super::shared::Shared;
use crate::deadline::{self, Deadline};
use crate::errors;
use crate::fork::Generation;
use drainq_core::batch::config::EXIT_TIMEOUT;
use drainq_core::batch::flush::Flush;
use pyo3::prelude::*;
use std::sync::Arc;

impl Shared {
    /// Ends the queue by `deadline`; true if nothing was abandoned, by this call or an earlier one.
    pub fn end(&self, py: Python<'_>, deadline: Deadline) -> PyResult<bool> {
        let (process, begun_in) = (self.process(), Generation::now());
        let queue = process.queue.clone();
        queue.close();
        let drained = deadline::wait(py, deadline, |slice| queue.wait_drained(slice).then_some(()))?.is_some();
        let abandoned = if drained { 0 } else { queue.cut().abandoned };
        let is_clean = drained && !queue.is_cut();
        if abandoned > 0 {
            self.drops.add(py, Reason::Abandoned, abandoned);
        }
        if is_clean && process.is_started() && self.pool().is_some() {
            // The threads of a shared scheduler may be busy with other queues.
            self.call_on_close(py);
        }
        if begun_in.is_past() {
            return Err(deadline::forked(py));
        }
        if is_clean {
            let callers = process.callers.clone();
            deadline::wait(py, deadline, |slice| callers.wait_over(slice).then_some(()))?;
            self.join_threads(py, deadline)?;
        }
        self.drops.flush(py);
        Ok(is_clean)
    }

    /// Waits until the drain threads are gone; they have nothing left to do. A thread that is still there
    /// at the deadline, or when the wait is interrupted, is waited for by the next call.
    fn join_threads(&self, py: Python<'_>, deadline: Deadline) -> PyResult<()> {
        let current = py.import("threading")?.call_method0("current_thread")?;
        let threads: Vec<_> = self.process().threads.lock().iter().map(|thread| thread.clone_ref(py)).collect();
        for thread in threads {
            let thread = thread.bind(py);
            while !thread.is(&current) && thread.call_method0("is_alive")?.is_truthy()? {
                if deadline.passed() {
                    return Ok(());
                }
                thread.call_method1("join", (deadline.slice().as_secs_f64(),))?;
            }
            let mut threads = self.process().threads.lock();
            let gone: Vec<_> = threads.extract_if(.., |other| other.is(thread)).collect();
            drop(threads);
            drop(gone);
        }
        Ok(())
    }

    /// Seconds that the end of the process waits for this queue.
    fn exit_timeout(&self) -> f64 {
        self.shutdown_timeout().unwrap_or(EXIT_TIMEOUT.as_secs_f64())
    }
}

impl Live for Shared {
    fn is_running(&self) -> bool {
        self.queue().is_running()
    }

    /// For half of the time only: the rest belongs to the shutdown.
    fn flush_at_exit(&self, py: Python<'_>) -> PyResult<()> {
        let deadline = Deadline::after("shutdown_timeout", Some(self.exit_timeout() / 2.0))?;
        let mut flush = Flush::of_queue(self.queue());
        deadline::wait(py, deadline, |slice| flush.wait(slice)).map(drop)
    }

    fn end_at_exit(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, Deadline::after("shutdown_timeout", Some(self.exit_timeout()))?).map(drop)
    }
}

/// Shuts several queues down; true if nothing was abandoned.
///
/// `timeout` is in seconds, for all of them together; None: each queue's own setting.
pub fn end_all(py: Python<'_>, queues: Vec<Arc<Shared>>, timeout: Option<f64>) -> PyResult<bool> {
    let common = Deadline::after("timeout", timeout)?;
    let mut is_clean = true;
    for shared in queues {
        if shared.queue().is_draining_here() {
            return Err(errors::WOULD_DEADLOCK.error(
                py,
                format!("shutdown_all was called from a handler of queue {:?}, which it would wait for", shared.name()),
            ));
        }
        let deadline = match timeout {
            Some(_) => common,
            None => Deadline::after("shutdown_timeout", shared.shutdown_timeout())?,
        };
        is_clean &= shared.end(py, deadline)?;
    }
    Ok(is_clean)
}
