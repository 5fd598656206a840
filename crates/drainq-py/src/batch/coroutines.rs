//! The functions of `drainq/aio.py`, which is imported by the first of these calls: `import drainq` loads no asyncio.

use crate::gil::PythonFunction;
use pyo3::prelude::*;
use pyo3::types::PyIterator;

static PRODUCE: PythonFunction = PythonFunction::of("drainq.aio", "produce");
static PRODUCE_MANY: PythonFunction = PythonFunction::of("drainq.aio", "produce_many");
static REMOVE_HANDLER: PythonFunction = PythonFunction::of("drainq.aio", "remove_handler");
static END: PythonFunction = PythonFunction::of("drainq.aio", "end");
static ENTERED: PythonFunction = PythonFunction::of("drainq.aio", "entered");
static IS_HERE: PythonFunction = PythonFunction::of("drainq.aio", "is_here");

/// Makes the coroutine of `produce_async` and `offer_async`.
pub fn produce<'py>(
    queue: &Bound<'py, PyAny>,
    item: &Bound<'py, PyAny>,
    timeout: Option<f64>,
    number: u64,
    waits: bool,
) -> PyResult<Bound<'py, PyAny>> {
    PRODUCE.call(queue.py(), (queue, item, timeout, number, waits))
}

/// Makes the coroutine of `produce_many_async`.
pub fn produce_many<'py>(
    queue: &Bound<'py, PyAny>,
    items: Bound<'py, PyIterator>,
    number: u64,
    waits: bool,
) -> PyResult<Bound<'py, PyAny>> {
    PRODUCE_MANY.call(queue.py(), (queue, items, number, waits))
}

/// Makes the coroutine of `remove_handler_async`.
pub fn remove_handler<'py>(
    queue: &Bound<'py, PyAny>,
    number: u64,
    r#type: &Bound<'py, PyAny>,
    timeout: Option<f64>,
) -> PyResult<Bound<'py, PyAny>> {
    REMOVE_HANDLER.call(queue.py(), (queue, number, r#type, timeout))
}

/// Makes the coroutine that waits as a method of the queue does.
pub fn end<'py>(
    queue: &Bound<'py, PyAny>,
    number: u64,
    method: &str,
    timeout: Option<f64>,
) -> PyResult<Bound<'py, PyAny>> {
    END.call(queue.py(), (queue, number, method, timeout))
}

/// Makes the coroutine of `__aenter__`.
pub fn entered<'py>(queue: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    ENTERED.call(queue.py(), (queue,))
}

/// Whether the current thread runs this event loop now.
pub fn is_here(event_loop: &Bound<'_, PyAny>) -> PyResult<bool> {
    IS_HERE.call(event_loop.py(), (event_loop,))?.is_truthy()
}
