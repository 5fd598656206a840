//! The only file that releases and takes the GIL, and that calls Python code.
//!
//! CPython ends a thread that asks for the GIL while the interpreter is going away. PyO3 halts the thread instead if
//! this module released the GIL. The [door](crate::guarded_calls) does so if Python code that this module called
//! released it.
//!
//! # Invariants
//! 1. The linker cannot redirect a C function with a variable number of arguments to the door. Such a function is
//!    called only here, in [`call`], which goes through the door itself.

use crate::guarded_calls::through_the_door;
use pyo3::PyTypeCheck;
use pyo3::ffi::{self, Py_ssize_t};
use pyo3::marker::Ungil;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple};
use std::ptr;

/// Runs `work` with the GIL released, so that other Python threads run meanwhile.
pub fn released<R: Ungil>(py: Python<'_>, work: impl Ungil + FnOnce() -> R) -> R {
    py.detach(work)
}

/// Runs `work` with the GIL held, on a thread that may not hold it yet.
///
/// Does nothing, and returns `None`, once the interpreter is going away.
pub fn held<R>(work: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    Python::try_attach(work)
}

/// Runs `work` of a raw method, which CPython calls with the GIL held.
///
/// Tells PyO3 that the GIL is held, so that references dropped meanwhile are given back at once. PyO3 refuses this once
/// the interpreter is going away. A finaliser may still call the method then, so `work` runs in any case.
pub fn entered<R>(work: impl FnOnce() -> R) -> R {
    let mut work = Some(work);
    let mut run = || work.take().map(|work| work());
    let done = Python::try_attach(|_| run()).flatten().or_else(run);
    done.expect("the work runs once: attached, or not")
}

unsafe extern "C-unwind" {
    fn PyObject_CallFunctionObjArgs(callable: *mut ffi::PyObject, ...) -> *mut ffi::PyObject;
}

/// Calls user code, with up to three arguments.
pub fn call<'py, const N: usize>(
    callable: &Bound<'py, PyAny>,
    arguments: [&Bound<'py, PyAny>; N],
) -> PyResult<Bound<'py, PyAny>> {
    call_or_set(callable, arguments).ok_or_else(|| PyErr::fetch(callable.py()))
}

/// Calls user code as [`call`] does; `None` if there was an exception, which is left set.
#[inline]
pub fn call_or_set<'py, const N: usize>(
    callable: &Bound<'py, PyAny>,
    arguments: [&Bound<'py, PyAny>; N],
) -> Option<Bound<'py, PyAny>> {
    const { assert!(N <= 3, "the call below has room for three arguments") };
    let argument = |index: usize| arguments.get(index).map_or(ptr::null_mut(), |argument| argument.as_ptr());
    // SAFETY: the GIL is held, all objects are alive, and the first null ends the arguments. The answer
    // is a new reference, or null with an exception set.
    unsafe {
        let answer = through_the_door(|| {
            PyObject_CallFunctionObjArgs(
                callable.as_ptr(),
                argument(0),
                argument(1),
                argument(2),
                ptr::null_mut::<ffi::PyObject>(),
            )
        });
        Bound::from_owned_ptr_or_opt(callable.py(), answer)
    }
}

/// Calls Python code with any number of arguments.
pub fn call_with<'py>(callable: &Bound<'py, PyAny>, arguments: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the GIL is held and the objects are alive. The answer is a new reference, or null with an exception set.
    unsafe {
        let answer = ffi::PyObject_CallObject(callable.as_ptr(), arguments.as_ptr());
        Bound::from_owned_ptr_or_err(callable.py(), answer)
    }
}

/// Returns the object `name` of a module. Only the first call imports the module.
///
/// No lock is held during the import. The import runs Python code, which may call this function again.
pub fn import_once<'a, 'py, T: PyTypeCheck>(
    py: Python<'py>,
    known: &'a PyOnceLock<Py<T>>,
    module: &str,
    name: &str,
) -> PyResult<&'a Bound<'py, T>> {
    if let Some(found) = known.get(py) {
        return Ok(found.bind(py));
    }
    let found = py.import(module)?.getattr(name)?.cast_into::<T>()?.unbind();
    Ok(known.get_or_init(py, || found).bind(py))
}

/// A function or class of a Python module, looked up once.
pub struct PythonFunction {
    module: &'static str,
    name: &'static str,
    function: PyOnceLock<Py<PyAny>>,
}

impl PythonFunction {
    /// Refers to the function or class `name` in `module`.
    pub const fn of(module: &'static str, name: &'static str) -> Self {
        Self { module, name, function: PyOnceLock::new() }
    }

    /// Returns the function itself.
    pub fn get<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyAny>> {
        import_once(py, &self.function, self.module, self.name)
    }

    /// Calls it with a tuple of arguments.
    pub fn call<'py, A>(&self, py: Python<'py>, arguments: A) -> PyResult<Bound<'py, PyAny>>
    where
        A: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>>,
        PyErr: From<A::Error>,
    {
        call_with(self.get(py)?, &arguments.into_pyobject(py)?)
    }
}

/// Calls a method that is or calls Python code: of an event loop, or of a dict, which hashes and compares keys.
pub fn call_method<'py, const N: usize>(
    object: &Bound<'py, PyAny>,
    name: &str,
    arguments: [&Bound<'py, PyAny>; N],
) -> PyResult<Bound<'py, PyAny>> {
    let name = PyString::intern(object.py(), name);
    let method = attribute_or_set(object, &name).ok_or_else(|| PyErr::fetch(object.py()))?;
    call(&method, arguments)
}

/// Returns the item of an object at a key, by its `__getitem__`; `None` if there was an exception, which is left set.
#[inline]
pub fn item_or_set<'py>(object: &Bound<'py, PyAny>, key: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    // SAFETY: the GIL is held and the objects are alive; the answer is a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_opt(object.py(), ffi::PyObject_GetItem(object.as_ptr(), key.as_ptr())) }
}

/// Returns an attribute of an object; `None` if there was an exception, which is left set.
#[inline]
pub fn attribute_or_set<'py>(object: &Bound<'py, PyAny>, name: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    // SAFETY: the GIL is held and the objects are alive; the answer is a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_opt(object.py(), ffi::PyObject_GetAttr(object.as_ptr(), name.as_ptr())) }
}

/// Whether two objects are the same or equal.
pub fn are_equal(left: &Bound<'_, PyAny>, right: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(left.is(right) || left.eq(right)?)
}

/// Makes a list with `length` empty slots. Before Python 3.12 this may run the garbage collector, and thus the
/// finalisers of any object.
pub fn empty_list(py: Python<'_>, length: usize) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: the GIL is held; the answer is a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyList_New(length as Py_ssize_t)) }
}
