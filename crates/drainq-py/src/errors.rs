//! Makes the exceptions that this module raises, of the classes in `drainq/errors.py`. `core_errors.rs` turns the
//! core's refusals into them.

use crate::gil;
use pyo3::exceptions::{
    PyException, PyImportError, PyKeyError, PyOSError, PyOverflowError, PyRuntimeError, PyStopAsyncIteration,
    PyStopIteration, PySystemError, PyTypeError, PyValueError,
};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyType};

/// A class of `drainq.errors` or of the standard library, looked up once.
pub struct ErrorClass {
    module: &'static str,
    name: &'static str,
    class: PyOnceLock<Py<PyType>>,
}

impl ErrorClass {
    /// Makes the class of this name in `drainq.errors`.
    pub const fn new(name: &'static str) -> Self {
        Self::of("drainq.errors", name)
    }

    /// Makes the class of this name in `module`.
    pub const fn of(module: &'static str, name: &'static str) -> Self {
        Self { module, name, class: PyOnceLock::new() }
    }

    /// Returns the class itself.
    pub fn class<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyType>> {
        self.class.import(py, self.module, self.name)
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
/// `drainq.DuplicateName`.
pub static DUPLICATE_NAME: ErrorClass = ErrorClass::new("DuplicateName");
/// `drainq.ModeConflict`.
pub static MODE_CONFLICT: ErrorClass = ErrorClass::new("ModeConflict");
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

/// Looks all of them up when the module is loaded, because a finaliser may need one when no import works any more.
pub fn look_up(py: Python<'_>) -> PyResult<()> {
    let ours = [&DRAINQ_ERROR, &DUPLICATE_NAME, &MODE_CONFLICT, &WOULD_DEADLOCK, &SHUT_DOWN, &SUB_QUEUE_REMOVED];
    let others = [&EMPTY, &FULL];
    ours.into_iter().chain(others).try_for_each(|error| error.class(py).map(drop))
}

/// Makes an ImportError with `message`.
pub fn bad_import(message: impl Into<String>) -> PyErr {
    PyImportError::new_err(message.into())
}

/// Makes a ValueError with `message`.
pub fn bad_value(message: impl Into<String>) -> PyErr {
    PyValueError::new_err(message.into())
}

/// Makes an OSError with `message` and the system's error number, if there is one, which decides its class.
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
    // SAFETY: the GIL is held; it sets an exception that the interpreter made in advance.
    unsafe { ffi::PyErr_NoMemory() };
    PyErr::fetch(py)
}

/// Makes a TypeError with `message`.
pub fn bad_type(message: impl Into<String>) -> PyErr {
    PyTypeError::new_err(message.into())
}

/// Returns the text that a refusal shows for `value`: its repr, or its class and the class of the exception if the repr
/// raises.
///
/// Raises only exceptions that no handler should hide, such as Ctrl-C.
pub fn shown(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let py = value.py();
    match gil::repr(value) {
        Ok(text) => Ok(text.to_string()),
        Err(error) if error.is_instance_of::<PyException>(py) => {
            let name = |class: &Bound<'_, PyType>| class.name().map_or_else(|_| "?".into(), |name| name.to_string());
            let raised = name(&error.get_type(py));
            Ok(format!("<an object of class {} whose repr raised {raised}>", name(&value.get_type())))
        }
        Err(error) => Err(error),
    }
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
            // The call still raises an exception whose class cannot have the attribute.
            no_attribute.write_unraisable(py, None);
            error
        }
    }
}

/// Warns of a set-up mismatch: a `drainq.DrainqWarning` at the line that called drainq.
pub fn warn(py: Python<'_>, message: &str) -> PyResult<()> {
    let message = PyString::new(py, message);
    gil::call_method(py.import("drainq.errors")?.as_any(), "warn", [message.as_any()]).map(drop)
}
