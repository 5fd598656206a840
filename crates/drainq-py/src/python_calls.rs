//! Calls the functions of the package that this module needs: the log, error handlers, balancers, threads, statistics.
//!
//! They are looked up when the first queue is made, so that no drain thread imports anything.

use crate::ctrl_c;
use crate::gil::PythonFunction;
use pyo3::exceptions::{PyBaseException, PyKeyboardInterrupt};
use pyo3::prelude::*;

static LOG: PythonFunction = PythonFunction::of("drainq._calls", "log");
static HANDLER_PARTS: PythonFunction = PythonFunction::of("drainq._calls", "handler_parts");
static REPORT_FAILURE: PythonFunction = PythonFunction::of("drainq._calls", "report_failure");
static PLAN: PythonFunction = PythonFunction::of("drainq._calls", "plan");
static CHECK_ANSWER: PythonFunction = PythonFunction::of("drainq.callables", "check_answer");
static START_THREAD: PythonFunction = PythonFunction::of("drainq.threads", "start_thread");
/// Reports items that are not handled. [`LATER`] calls a function later.
pub static REPORT_DROPS: PythonFunction = PythonFunction::of("drainq._calls", "report_drops");
pub static LATER: PythonFunction = PythonFunction::of("drainq._calls", "later");
static CHECK_CALLABLE: PythonFunction = PythonFunction::of("drainq.callables", "check_callable");

/// Looks up the functions that drain threads call.
pub fn look_up(py: Python<'_>) -> PyResult<()> {
    [&LOG, &HANDLER_PARTS, &REPORT_FAILURE, &PLAN, &CHECK_ANSWER, &START_THREAD, &REPORT_DROPS, &LATER]
        .into_iter()
        .try_for_each(|function| function.get(py).map(drop))
}

/// Returns the exception itself, with its traceback.
pub fn value(py: Python<'_>, error: PyErr) -> Bound<'_, PyBaseException> {
    error.into_value(py).into_bound(py)
}

/// Starts a daemon thread of this name that calls `target`.
pub fn start_thread(py: Python<'_>, name: &str, target: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    Ok(START_THREAD.call(py, (target, name))?.unbind())
}

/// Writes to the logger `drainq` at `level`; never raises.
pub fn log(py: Python<'_>, level: &str, message: &str) {
    if let Err(error) = LOG.call(py, (level, message)) {
        report_unraised(py, error);
    }
}

/// Reports an exception in a call that must not raise it. Ctrl-C is not lost: it is raised again after the call.
pub fn report_unraised(py: Python<'_>, error: PyErr) {
    if error.is_instance_of::<PyKeyboardInterrupt>(py) {
        ctrl_c::come_again(py);
    } else {
        error.write_unraisable(py, None);
    }
}

/// Logs an exception with its traceback.
pub fn log_error(py: Python<'_>, message: &str, error: &Bound<'_, PyBaseException>) {
    if let Err(error) = LOG.call(py, ("error", message, error)) {
        report_unraised(py, error);
    }
}

/// `consume`, and `on_idle`, `on_close` and `on_abandoned` where the handler has them.
pub type HandlerParts = (Py<PyAny>, [Option<Py<PyAny>>; 3]);

/// Reads the parts of a handler. If there is an event loop, it runs `async def` handlers of the
/// queue with this number.
pub fn handler_parts(
    name: &str,
    handler: &Bound<'_, PyAny>,
    event_loop: Option<&Py<PyAny>>,
    number: u64,
) -> PyResult<HandlerParts> {
    HANDLER_PARTS.call(handler.py(), (name, handler, event_loop, number))?.extract()
}

/// Calls an error handler; returns how many items the handler put into a durable queue. The number is 0 unless the
/// handler's attribute `dead_letters` is true.
pub fn report_failure(
    on_error: &Bound<'_, PyAny>,
    batch: &Bound<'_, PyAny>,
    error: &Bound<'_, PyBaseException>,
) -> PyResult<u64> {
    REPORT_FAILURE.call(on_error.py(), (on_error, batch, error))?.extract()
}

/// Asks a balancer which thread should own which partition.
pub fn plan(
    balancer: &Bound<'_, PyAny>,
    throughput: Vec<u64>,
    owners: &[u16],
    threads: usize,
) -> PyResult<Option<Vec<i64>>> {
    PLAN.call(balancer.py(), (balancer, throughput, owners.to_vec(), threads))?.extract()
}

/// Refuses an object that cannot be called with this argument, or whose call would do nothing.
pub fn check_callable(name: &str, value: &Bound<'_, PyAny>, argument: &str) -> PyResult<()> {
    CHECK_CALLABLE.call(value.py(), (name, value, argument)).map(drop)
}

/// Refuses the result of a call that has run none of its code, such as the coroutine of an async function behind a
/// lambda. No check before the call can find this.
pub fn check_answer(callable: &str, answer: Bound<'_, PyAny>) -> PyResult<()> {
    if answer.is_none() {
        return Ok(());
    }
    CHECK_ANSWER.call(answer.py(), (callable, &answer)).map(drop)
}
