//! The end of queues: shutdown by hand, and at the interpreter's exit.
//!
//! The order at exit:
//! 1. `threading` begins to wait for its threads. Queues are flushed here while executors
//!    still work, for handlers may use them (best effort: the hook is private to CPython).
//! 2. Executors and other non-daemon threads end: no producer is left.
//! 3. `atexit`: each queue is shut down, which delivers what was produced up to then.
//! 4. The interpreter ends. The drain threads have ended before.

use super::drops::Reason;
use super::shared::Shared;
use crate::deadline::{self, Deadline};
use crate::errors;
use crate::fork::{self, Renew};
use drainq_core::batch::config::EXIT_TIMEOUT;
use drainq_core::batch::flush::Flush;
use drainq_core::sync::Mutex;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Queues whose threads may still run, in the order in which they were made.
static LIVE: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

fn live() -> Vec<Arc<Shared>> {
    LIVE.lock().iter().filter_map(Weak::upgrade).collect()
}

/// Remembers a queue for the end of the process, and for its forks.
pub fn remember(shared: &Arc<Shared>) {
    let mut live = LIVE.lock();
    live.retain(|other| other.strong_count() > 0);
    live.push(Arc::downgrade(shared));
    fork::register(Arc::downgrade(shared) as Weak<dyn Renew>);
}

/// Asks Python to call us at exit; once per process.
pub fn install_hooks(py: Python<'_>) -> PyResult<()> {
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    if INSTALLED.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let module = PyModule::new(py, "drainq._native")?;
    let at_exit = wrap_pyfunction!(shut_down_at_exit, &module)?;
    py.import("atexit")?.call_method1("register", (at_exit,))?;
    if let Some(register) = py.import("threading")?.getattr_opt("_register_atexit")? {
        // Refused once the interpreter has begun to end; then there is only step 3.
        let _ = register.call1((wrap_pyfunction!(flush_before_exit, &module)?,));
    }
    Ok(())
}

/// Ends a queue by `deadline`; true if nothing was abandoned, by this call or an earlier one.
pub fn end(py: Python<'_>, shared: &Arc<Shared>, deadline: Deadline) -> PyResult<bool> {
    let process = shared.process();
    let queue = process.queue.clone();
    queue.close();
    let drained = deadline::wait(py, deadline, |slice| queue.wait_drained(slice).then_some(()))?.is_some();
    if !drained {
        let cut = queue.cut();
        if cut.abandoned > 0 {
            shared.drops.add(py, shared.name(), Reason::Abandoned, cut.abandoned);
        }
    }
    shared.drops.flush(py, shared.name());
    if drained && !queue.is_cut() {
        join(py, shared, deadline)?;
    }
    Ok(drained && !queue.is_cut())
}

/// Waits until the drain threads are gone; they have nothing left to do.
fn join(py: Python<'_>, shared: &Shared, deadline: Deadline) -> PyResult<()> {
    let threads = std::mem::take(&mut *shared.process().threads.lock());
    let current = py.import("threading")?.call_method0("current_thread")?;
    for thread in threads {
        while !thread.bind(py).is(&current) && thread.call_method0(py, "is_alive")?.is_truthy(py)? {
            if deadline.passed() {
                return Ok(());
            }
            thread.call_method1(py, "join", (deadline.slice().as_secs_f64(),))?;
        }
    }
    Ok(())
}

/// Seconds that the end of the process waits for a queue.
fn exit_timeout(shared: &Shared) -> f64 {
    shared.shutdown_timeout().unwrap_or(EXIT_TIMEOUT.as_secs_f64())
}

/// Step 1: what is queued is handled while executors work. Part of a deadline only: the
/// rest belongs to the shutdown.
#[pyfunction]
fn flush_before_exit(py: Python<'_>) -> PyResult<()> {
    for shared in live() {
        let deadline = Deadline::after("shutdown_timeout", Some(exit_timeout(&shared) / 2.0))?;
        let mut flush = Flush::of_queue(shared.queue());
        deadline::wait(py, deadline, |slice| flush.wait(slice))?;
    }
    Ok(())
}

/// Step 3.
#[pyfunction]
fn shut_down_at_exit(py: Python<'_>) -> PyResult<()> {
    for shared in live() {
        end(py, &shared, Deadline::after("shutdown_timeout", Some(exit_timeout(&shared)))?)?;
    }
    Ok(())
}

/// A deadline for the shutdown of several queues.
pub fn end_all(py: Python<'_>, queues: Vec<Arc<Shared>>, timeout: Option<f64>) -> PyResult<bool> {
    let common = Deadline::after("timeout", timeout)?;
    let mut clean = true;
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
        clean &= end(py, &shared, deadline)?;
    }
    Ok(clean)
}
