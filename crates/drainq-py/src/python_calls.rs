//! Calls the functions of `drainq/_calls.py`: the log, error handlers, balancers, threads.
//!
//! They are looked up when the first queue is made, so that no drain thread imports anything.

use crate::ctrl_c;
use crate::gil;
use pyo3::exceptions::{PyBaseException, PyKeyboardInterrupt};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple};

/// A function of `drainq._calls`.
struct PythonFunction {
    name: &'static str,
    function: PyOnceLock<Py<PyAny>>,
}

impl PythonFunction {
    const fn new(name: &'static str) -> Self {
        Self { name, function: PyOnceLock::new() }
    }

    fn get<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyAny>> {
        self.function.import(py, "drainq._calls", self.name)
    }

    fn call<'py, const N: usize>(
        &self,
        py: Python<'py>,
        arguments: [&Bound<'py, PyAny>; N],
    ) -> PyResult<Bound<'py, PyAny>> {
        gil::call(self.get(py)?, arguments)
    }
}

static LOG: PythonFunction = PythonFunction::new("log");
static HANDLER_PARTS: PythonFunction = PythonFunction::new("handler_parts");
static REPORT_FAILURE: PythonFunction = PythonFunction::new("report_failure");
static PLAN: PythonFunction = PythonFunction::new("plan");
static CHECK_ANSWER: PythonFunction = PythonFunction::new("check_answer");
static IS_CTRL_C: PythonFunction = PythonFunction::new("is_ctrl_c");
static START_THREAD: PythonFunction = PythonFunction::new("start_thread");

/// Looks all of them up.
pub fn look_up(py: Python<'_>) -> PyResult<()> {
    [&LOG, &HANDLER_PARTS, &REPORT_FAILURE, &PLAN, &CHECK_ANSWER, &IS_CTRL_C, &START_THREAD]
        .into_iter()
        .try_for_each(|function| function.get(py).map(drop))
}

/// Returns the exception itself, with its traceback.
pub fn value(py: Python<'_>, error: PyErr) -> Bound<'_, PyBaseException> {
    error.into_value(py).into_bound(py)
}

/// Starts a daemon thread of this name that calls `target`.
pub fn start_thread(py: Python<'_>, name: &str, target: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    Ok(START_THREAD.call(py, [&PyString::new(py, name), target])?.unbind())
}

/// Writes to the logger `drainq` at `level`; never raises.
pub fn log(py: Python<'_>, level: &str, message: &str) {
    if let Err(error) = try_log(py, level, message) {
        report_unraised(py, error);
    }
}

/// Writes to the logger `drainq` at `level`.
pub fn try_log(py: Python<'_>, level: &str, message: &str) -> PyResult<()> {
    let (level, message) = (PyString::new(py, level), PyString::new(py, message));
    LOG.call(py, [&level, &message]).map(drop)
}

/// Reports an exception of the log in a call that must not raise it. Ctrl-C is not lost: it is raised again after the
/// call.
pub fn report_unraised(py: Python<'_>, error: PyErr) {
    if !interrupt_again(py, error.value(py)) {
        error.write_unraisable(py, None);
    }
}

/// Whether an exception is Ctrl-C on the main thread. If so, it is raised again once the call has returned.
pub fn interrupt_again(py: Python<'_>, error: &Bound<'_, PyBaseException>) -> bool {
    let is_ctrl_c = IS_CTRL_C.call(py, [error]).and_then(|answer| answer.is_truthy()).unwrap_or_else(|error| {
        // Ctrl-C was pressed once more during the check.
        let once_more = error.is_instance_of::<PyKeyboardInterrupt>(py);
        if !once_more {
            error.write_unraisable(py, None);
        }
        once_more
    });
    if is_ctrl_c {
        ctrl_c::come_again(py);
    }
    is_ctrl_c
}

/// Logs an exception with its traceback.
pub fn log_error(py: Python<'_>, message: &str, error: &Bound<'_, PyBaseException>) {
    let (level, message) = (PyString::intern(py, "error"), PyString::new(py, message));
    if let Err(error) = LOG.call(py, [&level, &message, error]) {
        report_unraised(py, error);
    }
}

/// `consume`, and `on_idle` and `on_close` where the handler has them.
pub type HandlerParts = (Py<PyAny>, Option<Py<PyAny>>, Option<Py<PyAny>>);

/// Reads `consume`, `on_idle` and `on_close` of a handler. If there is an event loop, it runs `async def` handlers of the
/// queue with this number.
pub fn handler_parts(
    name: &str,
    handler: &Bound<'_, PyAny>,
    event_loop: Option<&Py<PyAny>>,
    number: u64,
) -> PyResult<HandlerParts> {
    let arguments = (name, handler, event_loop, number).into_pyobject(handler.py())?;
    gil::call_with(HANDLER_PARTS.get(handler.py())?, &arguments)?.extract()
}

/// Calls an error handler; returns how many items the handler put into a durable queue. Only a handler with a true
/// attribute `dead_letters` returns a number.
pub fn report_failure(
    on_error: &Bound<'_, PyAny>,
    batch: &Bound<'_, PyAny>,
    error: &Bound<'_, PyBaseException>,
) -> PyResult<u64> {
    REPORT_FAILURE.call(on_error.py(), [on_error, batch, error])?.extract()
}

/// Asks a balancer which thread should own which partition.
pub fn plan(
    balancer: &Bound<'_, PyAny>,
    throughput: Vec<u64>,
    owners: &[u16],
    threads: usize,
) -> PyResult<Option<Vec<i64>>> {
    let load = (throughput, owners.to_vec(), threads).into_pyobject(balancer.py())?;
    PLAN.call(balancer.py(), [balancer, &load])?.extract()
}

/// Refuses an object that cannot be called with these arguments, or whose call would do nothing.
pub fn check_callable(name: &str, value: &Bound<'_, PyAny>, arguments: &[&str]) -> PyResult<()> {
    let py = value.py();
    let fixed = [name.into_pyobject(py)?.into_any(), value.clone()];
    let names = arguments.iter().map(|argument| Ok(argument.into_pyobject(py)?.into_any()));
    let all: Vec<_> = fixed.into_iter().map(Ok).chain(names).collect::<PyResult<_>>()?;
    gil::call_with(&py.import("drainq.callables")?.getattr("check_callable")?, &PyTuple::new(py, all)?).map(drop)
}

/// Refuses the result of a call if none of its code has run, such as the coroutine of an async function behind a
/// lambda, which no check before the call can find.
pub fn check_answer(callable: &str, answer: Bound<'_, PyAny>) -> PyResult<()> {
    if answer.is_none() {
        return Ok(());
    }
    let name = PyString::new(answer.py(), callable);
    CHECK_ANSWER.call(answer.py(), [&name, &answer]).map(drop)
}
