//! The functions of `drainq/aio.py`, which is imported by the first of these calls: `import drainq` loads no asyncio.

use crate::gil;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

/// A function of `drainq.aio`.
struct AioFunction {
    name: &'static str,
    function: PyOnceLock<Py<PyAny>>,
}

impl AioFunction {
    const fn new(name: &'static str) -> Self {
        Self { name, function: PyOnceLock::new() }
    }

    fn call<'py>(&self, arguments: &[&Bound<'py, PyAny>], py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let function = self.function.import(py, "drainq.aio", self.name)?;
        gil::call_with(function, &PyTuple::new(py, arguments)?)
    }
}

static PRODUCE: AioFunction = AioFunction::new("produce");
static IN_THREAD: AioFunction = AioFunction::new("in_thread");
static ENTERED: AioFunction = AioFunction::new("entered");
static IS_HERE: AioFunction = AioFunction::new("is_here");

/// Makes the coroutine of `produce_async` and `offer_async`.
pub fn produce<'py>(
    queue: &Bound<'py, PyAny>,
    item: &Bound<'py, PyAny>,
    timeout: &Bound<'py, PyAny>,
    number: u64,
    waits: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = queue.py();
    let (number, waits) = (number.into_pyobject(py)?.into_any(), waits.into_pyobject(py)?.to_owned().into_any());
    PRODUCE.call(&[queue, item, timeout, &number, &waits], py)
}

/// Makes a coroutine that calls a method of the queue on a thread.
pub fn in_thread<'py>(
    queue: &Bound<'py, PyAny>,
    number: u64,
    method: &str,
    timeout: Option<f64>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = queue.py();
    let (number, method) = (number.into_pyobject(py)?.into_any(), method.into_pyobject(py)?.into_any());
    let timeout = timeout.into_pyobject(py)?;
    IN_THREAD.call(&[queue, &number, &method, &timeout], py)
}

/// Makes the coroutine of `__aenter__`.
pub fn entered<'py>(queue: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    ENTERED.call(&[queue], queue.py())
}

/// Whether the current thread runs this event loop now.
pub fn is_here(event_loop: &Bound<'_, PyAny>) -> PyResult<bool> {
    IS_HERE.call(&[event_loop], event_loop.py())?.is_truthy()
}
