//! The interpreter's exit.
//!
//! The order:
//! 1. `threading` begins to wait for its threads. At this point all queues are flushed, while
//!    executors still work, because handlers may use executors (best effort: the hook is private to
//!    CPython).
//! 2. Executors and other non-daemon threads end: no producer is left.
//! 3. `atexit` runs its callbacks: each queue is shut down, which hands out the items that were
//!    produced up to then.
//! 4. The interpreter ends. The drain threads have ended before.

use super::types::item::Item;
use crate::{errors, gil, python_calls};
use drainq_core::batch::BatchQueue;
use drainq_core::sync::Mutex;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// An object that must end before the process: a queue with its threads, or the reports of a queue.
pub trait Live: Send + Sync {
    /// Whether items are still accepted.
    fn is_running(&self) -> bool;

    /// Waits until the accepted items are handled (step 1). A report is made in step 3.
    fn flush_at_exit(&self, py: Python<'_>) -> PyResult<()>;

    /// Shuts the queue down (step 3).
    fn end_at_exit(&self, py: Python<'_>) -> PyResult<()>;

    /// Returns the core's queue, if this object is a queue, for the counts of `losses.rs`.
    fn counted(&self) -> Option<&BatchQueue<Item>> {
        None
    }
}

/// Queues whose threads may still run, in the order in which they were made.
static LIVE: Mutex<Vec<Weak<dyn Live>>> = Mutex::new(Vec::new());

/// Whether step 3 is over.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// Returns the objects that must end before the process.
pub fn live() -> Vec<Arc<dyn Live>> {
    LIVE.lock().iter().filter_map(Weak::upgrade).collect()
}

/// Registers a queue to be ended before the process ends.
pub fn register(queue: Weak<dyn Live>) {
    let mut live = LIVE.lock();
    live.retain(|other| other.strong_count() > 0);
    live.push(queue);
}

/// Asks Python to call this file at exit; once per process.
pub fn install_hooks(py: Python<'_>) -> PyResult<()> {
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    if INSTALLED.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    python_calls::look_up(py)?;
    // A signal handler may ask for statistics at any time, even during their import.
    py.import("drainq.statistics")?;
    let module = PyModule::new(py, "drainq._native")?;
    let at_exit = wrap_pyfunction!(shut_down_at_exit, &module)?;
    gil::call_method(py.import("atexit")?.as_any(), "register", [at_exit.as_any()])?;
    if let Some(register) = py.import("threading")?.getattr_opt("_register_atexit")? {
        // Refused once the interpreter has begun to end; then there is only step 3.
        let _ = gil::call(&register, [wrap_pyfunction!(flush_before_exit, &module)?.as_any()]);
    }
    Ok(())
}

/// Flushes the queues: step 1.
#[pyfunction]
fn flush_before_exit(py: Python<'_>) -> PyResult<()> {
    live().iter().try_for_each(|queue| queue.flush_at_exit(py))
}

/// Shuts the queues down: step 3.
#[pyfunction]
fn shut_down_at_exit(py: Python<'_>) -> PyResult<()> {
    end_live(py)?;
    IS_OVER.store(true, Ordering::Relaxed);
    Ok(())
}

/// Ends all queues, including those that a handler makes meanwhile.
fn end_live(py: Python<'_>) -> PyResult<()> {
    while let Some(queue) = live().into_iter().find(|queue| queue.is_running()) {
        queue.end_at_exit(py)?;
    }
    live().iter().try_for_each(|queue| queue.end_at_exit(py))
}

/// Whether step 3 is over: no item would be delivered any more, and no drop reported later.
pub fn is_over() -> bool {
    IS_OVER.load(Ordering::Relaxed)
}

/// Raises DrainqError if it is too late for a new queue.
pub fn check_not_over(py: Python<'_>, name: &str) -> PyResult<()> {
    if !is_over() {
        return Ok(());
    }
    Err(errors::DRAINQ_ERROR.error(
        py,
        format!(
            "queue {name:?} comes too late: the interpreter is going away, drainq's own exit callback has run, and \
             nothing that the queue takes would be handled; register your atexit callback after the first queue was \
             made, for the last one registered runs first"
        ),
    ))
}
