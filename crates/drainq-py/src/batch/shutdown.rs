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
use crate::calls;
use crate::deadline::{self, Deadline};
use crate::errors;
use crate::fork::{self, Generation, Renew};
use drainq_core::batch::config::EXIT_TIMEOUT;
use drainq_core::batch::flush::Flush;
use drainq_core::sync::Mutex;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Queues whose threads may still run, in the order in which they were made.
static LIVE: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// Whether step 3 is over.
static IS_OVER: AtomicBool = AtomicBool::new(false);

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
    calls::look_up(py)?;
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
    let (process, begun_in) = (shared.process(), Generation::now());
    let queue = process.queue.clone();
    queue.close();
    let drained = deadline::wait(py, deadline, |slice| queue.wait_drained(slice).then_some(()))?.is_some();
    let abandoned = if drained { 0 } else { queue.cut().abandoned };
    let is_clean = drained && !queue.is_cut();
    if abandoned > 0 {
        shared.drops.add(py, Reason::Abandoned, abandoned);
    }
    if is_clean && process.is_started() && shared.pool().is_some() {
        // The threads of a pool may be busy with other queues.
        shared.tell_closed(py);
    }
    if begun_in.is_past() {
        return Err(deadline::forked(py));
    }
    if is_clean {
        let callers = process.callers.clone();
        deadline::wait(py, deadline, |slice| callers.wait_over(slice).then_some(()))?;
        join(py, shared, deadline)?;
    }
    shared.drops.flush(py);
    Ok(is_clean)
}

/// Waits until the drain threads are gone; they have nothing left to do. A thread that is still there
/// at the deadline, or when the wait is interrupted, is waited for by the next call.
fn join(py: Python<'_>, shared: &Shared, deadline: Deadline) -> PyResult<()> {
    let current = py.import("threading")?.call_method0("current_thread")?;
    let threads: Vec<_> = shared.process().threads.lock().iter().map(|thread| thread.clone_ref(py)).collect();
    for thread in threads {
        let thread = thread.bind(py);
        while !thread.is(&current) && thread.call_method0("is_alive")?.is_truthy()? {
            if deadline.passed() {
                return Ok(());
            }
            thread.call_method1("join", (deadline.slice().as_secs_f64(),))?;
        }
        let mut threads = shared.process().threads.lock();
        let gone: Vec<_> = threads.extract_if(.., |other| other.is(thread)).collect();
        drop(threads);
        drop(gone);
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
    end_live(py)?;
    IS_OVER.store(true, Ordering::Relaxed);
    Ok(())
}

/// Ends all queues, those included that a handler makes meanwhile.
fn end_live(py: Python<'_>) -> PyResult<()> {
    while let Some(shared) = live().into_iter().find(|shared| shared.queue().is_running()) {
        end(py, &shared, Deadline::after("shutdown_timeout", Some(exit_timeout(&shared)))?)?;
    }
    for shared in live() {
        end(py, &shared, Deadline::after("shutdown_timeout", Some(exit_timeout(&shared)))?)?;
    }
    Ok(())
}

/// Whether step 3 is over: nothing would be delivered any more, and nothing told later.
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

/// Ends the child of a fork that was made on one of this module's threads, inside a call of user code.
///
/// That thread is the child's main thread, and what stands below it on the stack is the parent's: it
/// must not go on. The child ends as a program does: its other threads end, daemons apart, then its
/// queues are shut down, and it exits with status 0.
pub fn leave_child(py: Python<'_>) -> ! {
    let ended = calls::join_others(py).and_then(|()| end_live(py));
    if let Err(error) = ended {
        error.write_unraisable(py, None);
    }
    calls::exit(py)
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
