//! The functions of `drainq/_calls.py`: the log, error handlers, balancers, threads.
//!
//! They are looked up when the first queue is made, so that no drain thread imports anything.

use crate::gil;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

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
static REPORT_FAILURE: PythonFunction = PythonFunction::new("report_failure");
static PLAN: PythonFunction = PythonFunction::new("plan");
static CHECK_ANSWER: PythonFunction = PythonFunction::new("check_answer");
static START_THREAD: PythonFunction = PythonFunction::new("start_thread");
static JOIN_OTHERS: PythonFunction = PythonFunction::new("join_others");
static EXIT: PythonFunction = PythonFunction::new("exit_now");

/// Looks all of them up.
pub fn look_up(py: Python<'_>) -> PyResult<()> {
    [&LOG, &REPORT_FAILURE, &PLAN, &CHECK_ANSWER, &START_THREAD, &JOIN_OTHERS, &EXIT]
        .into_iter()
        .try_for_each(|function| function.get(py).map(drop))
}

/// Returns the exception itself, with the traceback that it was raised with.
pub fn value(py: Python<'_>, error: PyErr) -> Bound<'_, PyBaseException> {
    error.into_value(py).into_bound(py)
}

/// Starts a daemon thread of this name that calls `target`.
pub fn start_thread(py: Python<'_>, name: &str, target: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    Ok(START_THREAD.call(py, [&PyString::new(py, name), target])?.unbind())
}

/// Writes to the logger `drainq` at `level`; nothing that goes wrong there is raised.
pub fn log(py: Python<'_>, level: &str, message: &str) {
    let (level, message) = (PyString::new(py, level), PyString::new(py, message));
    if let Err(error) = LOG.call(py, [&level, &message]) {
        error.write_unraisable(py, None);
    }
}

/// Logs an exception with its traceback.
pub fn log_error(py: Python<'_>, message: &str, error: &Bound<'_, PyBaseException>) {
    let (level, message) = (PyString::intern(py, "error"), PyString::new(py, message));
    if let Err(error) = LOG.call(py, [&level, &message, error]) {
        error.write_unraisable(py, None);
    }
}

/// Calls an error handler; returns how many items the handler put into a durable queue. Only a handler with
/// a true attribute `dead_letters` is asked.
pub fn report_failure(
    on_error: &Bound<'_, PyAny>,
    batch: &Bound<'_, PyAny>,
    error: &Bound<'_, PyBaseException>,
) -> PyResult<u64> {
    REPORT_FAILURE.call(on_error.py(), [on_error, batch, error])?.extract()
}

/// Asks a balancer who is to own which partition.
pub fn plan(
    balancer: &Bound<'_, PyAny>,
    throughput: Vec<u64>,
    owners: &[u16],
    threads: usize,
) -> PyResult<Option<Vec<i64>>> {
    let load = (throughput, owners.to_vec(), threads).into_pyobject(balancer.py())?;
    PLAN.call(balancer.py(), [balancer, &load])?.extract()
}

/// Refuses the answer of a callable of which nothing has run.
pub fn check_answer(callable: &str, answer: &Bound<'_, PyAny>) -> PyResult<()> {
    let name = PyString::new(answer.py(), callable);
    CHECK_ANSWER.call(answer.py(), [&name, answer]).map(drop)
}

/// Waits until the threads have ended that are no daemons, the current one apart.
pub fn join_others(py: Python<'_>) -> PyResult<()> {
    JOIN_OTHERS.call(py, []).map(drop)
}

/// Ends the process with status 0, without what the interpreter does at its exit.
pub fn exit(py: Python<'_>) -> ! {
    let _ = EXIT.call(py, []);
    std::process::abort()
}
