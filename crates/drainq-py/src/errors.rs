//! Makes the exceptions that this module raises, of the classes in `drainq/errors.py`. `core_errors.rs` turns the
//! core's refusals into them.

use crate::gil::{self, PythonFunction};
use pyo3::exceptions::{
    PyImportError, PyKeyError, PyOSError, PyOverflowError, PyRuntimeError, PyStopAsyncIteration, PyStopIteration,
    PySystemError, PyTypeError, PyValueError,
};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// A class of `drainq.errors` or of the standard library, looked up once.
pub struct ErrorClass {
    module: &'static str,
    name: &'static str,
    class: PyOnceLock<Py<PyType>>,
}

impl ErrorClass {
    /// Refers to the class `name` in `drainq.errors`.
    pub const fn new(name: &'static str) -> Self {
        Self::of("drainq.errors", name)
    }

    /// Refers to the class `name` in `module`.
    pub const fn of(module: &'static str, name: &'static str) -> Self {
        Self { module, name, class: PyOnceLock::new() }
    }

    /// Returns the class itself.
    pub fn class<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyType>> {
        gil::import_once(py, &self.class, self.module, self.name)
    }

    /// Makes an exception of this class with `message`.
    pub fn error(&self, py: Python<'_>, message: impl Into<String>) -> PyErr {
        match self.class(py) {
            Ok(class) => PyErr::from_type(class.clone(), (message.into(),)),
            Err(error) => error,
        }
    }
}

/// `drainq.DrainqError`.
pub static DRAINQ_ERROR: ErrorClass = ErrorClass::new("DrainqError");
/// `drainq.WouldDeadlock`.
pub static WOULD_DEADLOCK: ErrorClass = ErrorClass::new("WouldDeadlock");
/// `drainq.ShutDown`.
pub static SHUT_DOWN: ErrorClass = ErrorClass::new("ShutDown");
/// `drainq.SubQueueRemoved`.
pub static SUB_QUEUE_REMOVED: ErrorClass = ErrorClass::new("SubQueueRemoved");

/// `queue.Empty`.
pub static EMPTY: ErrorClass = ErrorClass::of("queue", "Empty");
/// `queue.Full`.
pub static FULL: ErrorClass = ErrorClass::of("queue", "Full");

/// Makes an ImportError with `message`.
pub fn bad_import(message: impl Into<String>) -> PyErr {
    PyImportError::new_err(message.into())
}

/// Makes a ValueError with `message`.
pub fn bad_value(message: impl Into<String>) -> PyErr {
    PyValueError::new_err(message.into())
}

/// Makes an OSError with `message`. The system's error number, if there is one, decides the error's class.
pub fn os_error(number: Option<i32>, message: String) -> PyErr {
    match number {
        Some(number) => PyOSError::new_err((number, message)),
        None => PyOSError::new_err(message),
    }
}

/// Makes an OverflowError with `message`: a number that is valid and too large to be kept.
pub fn overflow(message: impl Into<String>) -> PyErr {
    PyOverflowError::new_err(message.into())
}

/// Makes a SystemError with `message`: a fault of this module or of the interpreter.
pub fn internal(message: impl Into<String>) -> PyErr {
    PySystemError::new_err(message.into())
}

/// Makes a MemoryError without allocating memory.
#[cold]
pub fn no_memory(py: Python<'_>) -> PyErr {
    // SAFETY: the GIL is held. The function sets an exception that the interpreter made in advance.
    unsafe { ffi::PyErr_NoMemory() };
    PyErr::fetch(py)
}

/// Makes a TypeError with `message`.
pub fn bad_type(message: impl Into<String>) -> PyErr {
    PyTypeError::new_err(message.into())
}

/// Returns the text that a refusal shows for `value`: its repr, or its class if the repr raises.
pub fn shown(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(|_| value.get_type().to_string(), |text| text.to_string())
}

/// Makes a KeyError with `message`.
pub fn bad_key(message: impl Into<String>) -> PyErr {
    PyKeyError::new_err(message.into())
}

/// Makes a RuntimeError with `message`: a call that comes at the wrong time.
pub fn bad_state(message: impl Into<String>) -> PyErr {
    PyRuntimeError::new_err(message.into())
}

/// Makes the exception that ends a coroutine with its result.
pub fn stop_iteration(result: Py<PyAny>) -> PyErr {
    PyStopIteration::new_err((result,))
}

/// Makes the exception that ends an `async for`.
pub fn stop_async_iteration() -> PyErr {
    PyStopAsyncIteration::new_err(())
}

/// Returns `error`, which ended a call that puts many items. Its attribute `accepted` is the number of items accepted
/// before.
pub fn after_accepting(py: Python<'_>, error: PyErr, accepted: usize) -> PyErr {
    match error.value(py).setattr("accepted", accepted) {
        Ok(()) => error,
        Err(no_attribute) => {
            // An exception whose class cannot have the attribute is raised without it.
            no_attribute.write_unraisable(py, None);
            error
        }
    }
}

/// Warns of a set-up mismatch: a `drainq.DrainqWarning` at the line that called drainq.
pub fn warn(py: Python<'_>, message: &str) -> PyResult<()> {
    static WARN: PythonFunction = PythonFunction::of("drainq.errors", "warn");
    WARN.call(py, (message,)).map(drop)
}
