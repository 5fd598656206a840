//! The only file that gives the GIL up and takes it back, and the only door into user code.
//!
//! Up to Python 3.13 a thread that asks for the GIL while the interpreter goes away is ended where it
//! stands, by `pthread_exit`, which unwinds its stack. Rust allows no such unwinding through its
//! frames: the process would abort. Where this module gives the GIL up itself, PyO3 halts such a thread. Where
//! user code gives the GIL up below a call of ours, the door halts the thread for ever, as Python 3.14 does by
//! itself.
//!
//! # Invariants
//! 1. User code is called through the functions below, and references that may be the last to an
//!    object of the user's are given back through [`let_go`], on every thread that may outlive the
//!    program's main thread: those of this module, and daemon threads that produce.
//! 2. The C functions of the door are declared to unwind, so that the compiler keeps the landing pad
//!    of the [`Halt`] around them.
//! 3. A thread that is halted holds no lock of ours that the end of the process needs: over a call of
//!    user code only the lock is held that keeps the calls of a handler apart.
//!
//! Source: `HangThread` in pyo3-ffi, which does the same around the taking of the GIL.

use pyo3::ffi::{self, Py_ssize_t};
use pyo3::marker::Ungil;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use std::ffi::c_int;
use std::mem;
use std::ptr;

/// Runs `work` with the GIL given up: other Python threads run meanwhile.
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
/// PyO3 learns of the GIL by it, so that references dropped on the way are given back at once. Where the interpreter is
/// going away PyO3 takes no notice any more; a finaliser may still call, and `work` runs all the same.
pub fn entered<R>(work: impl FnOnce() -> R) -> R {
    let mut work = Some(work);
    let mut run = || work.take().map(|work| work());
    let done = Python::try_attach(|_| run()).flatten().or_else(run);
    done.expect("the work runs once: attached, or not")
}

/// Counts one more reference to `object`, in place: a call would cost as much as the rest of a produce call.
///
/// The stable ABI of 3.10 allows it: its headers do the same. An immortal object of a newer Python
/// may look mortal for as long as the reference is held, which PEP 683 provides for.
#[inline(always)]
pub fn count_reference(object: &Bound<'_, PyAny>) {
    // SAFETY: the object is alive, the GIL is held, and the count is the object's first word in
    // every CPython with a GIL.
    unsafe { *object.as_ptr().cast::<Py_ssize_t>() += 1 }
}

unsafe extern "C-unwind" {
    fn PyObject_CallFunctionObjArgs(callable: *mut ffi::PyObject, ...) -> *mut ffi::PyObject;
    fn PyObject_CallObject(callable: *mut ffi::PyObject, arguments: *mut ffi::PyObject) -> *mut ffi::PyObject;
    fn PyObject_GetAttr(object: *mut ffi::PyObject, name: *mut ffi::PyObject) -> *mut ffi::PyObject;
    fn PyObject_Hash(object: *mut ffi::PyObject) -> ffi::Py_hash_t;
    fn PyObject_Repr(object: *mut ffi::PyObject) -> *mut ffi::PyObject;
    fn PyObject_RichCompareBool(left: *mut ffi::PyObject, right: *mut ffi::PyObject, operator: c_int) -> c_int;
    fn PyObject_GetIter(iterable: *mut ffi::PyObject) -> *mut ffi::PyObject;
    fn PyFloat_AsDouble(object: *mut ffi::PyObject) -> f64;
    fn PyIter_Next(iterator: *mut ffi::PyObject) -> *mut ffi::PyObject;
    fn PyDict_GetItemWithError(dict: *mut ffi::PyObject, key: *mut ffi::PyObject) -> *mut ffi::PyObject;
    fn PyList_New(size: Py_ssize_t) -> *mut ffi::PyObject;
    fn Py_DecRef(object: *mut ffi::PyObject);
}

/// Halts the thread for ever when it is dropped, which only unwinding does.
struct Halt;

impl Drop for Halt {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

/// Runs `work`, one C function of the door; a thread that is ended in it is halted there.
#[inline]
fn through_the_door<R>(work: impl FnOnce() -> R) -> R {
    let halt = Halt;
    let done = work();
    mem::forget(halt);
    done
}

/// Calls user code, with up to three arguments.
pub fn call<'py, const N: usize>(
    callable: &Bound<'py, PyAny>,
    arguments: [&Bound<'py, PyAny>; N],
) -> PyResult<Bound<'py, PyAny>> {
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
        Bound::from_owned_ptr_or_err(callable.py(), answer)
    }
}

/// Calls Python code with any number of arguments.
pub fn call_with<'py>(callable: &Bound<'py, PyAny>, arguments: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the GIL is held and the objects are alive. The answer is a new reference, or null with an exception set.
    unsafe {
        let answer = through_the_door(|| PyObject_CallObject(callable.as_ptr(), arguments.as_ptr()));
        Bound::from_owned_ptr_or_err(callable.py(), answer)
    }
}

/// Calls a method that is Python code, or that calls user code: an event loop's, or a dict's, which hashes and compares
/// keys.
pub fn call_method<'py, const N: usize>(
    object: &Bound<'py, PyAny>,
    name: &str,
    arguments: [&Bound<'py, PyAny>; N],
) -> PyResult<Bound<'py, PyAny>> {
    let name = PyString::intern(object.py(), name);
    // SAFETY: the GIL is held and the objects are alive. The answer is a new reference, or null with an exception set.
    let method = unsafe {
        let method = through_the_door(|| PyObject_GetAttr(object.as_ptr(), name.as_ptr()));
        Bound::from_owned_ptr_or_err(object.py(), method)?
    };
    call(&method, arguments)
}

/// Returns the repr of an object.
pub fn repr<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the GIL is held and the object is alive; the answer is a new reference, or null with an exception set.
    unsafe {
        let text = through_the_door(|| PyObject_Repr(object.as_ptr()));
        Bound::from_owned_ptr_or_err(object.py(), text)
    }
}

/// Returns the hash of an object.
pub fn hash(object: &Bound<'_, PyAny>) -> PyResult<isize> {
    // SAFETY: the GIL is held and the object is alive; -1 says that an exception is set.
    match through_the_door(|| unsafe { PyObject_Hash(object.as_ptr()) }) {
        -1 => Err(PyErr::fetch(object.py())),
        hash => Ok(hash),
    }
}

/// Returns the number that an object is, by its `__float__` or `__index__`.
pub fn float(object: &Bound<'_, PyAny>) -> PyResult<f64> {
    // SAFETY: the GIL is held and the object is alive; -1 may say that an exception is set.
    let value = through_the_door(|| unsafe { PyFloat_AsDouble(object.as_ptr()) });
    match value {
        -1.0 => PyErr::take(object.py()).map_or(Ok(value), Err),
        _ => Ok(value),
    }
}

/// Whether two objects are the same or equal.
pub fn are_equal(left: &Bound<'_, PyAny>, right: &Bound<'_, PyAny>) -> PyResult<bool> {
    // SAFETY: the GIL is held and the objects are alive; -1 says that an exception is set.
    match through_the_door(|| unsafe { PyObject_RichCompareBool(left.as_ptr(), right.as_ptr(), ffi::Py_EQ) }) {
        -1 => Err(PyErr::fetch(left.py())),
        answer => Ok(answer == 1),
    }
}

/// Returns what a dict holds for a key.
pub fn look_up<'py>(dict: &Bound<'py, PyDict>, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = key.py();
    // SAFETY: the GIL is held and the objects are alive; the answer is borrowed from the dict, or null, with an
    // exception set if there was one.
    let found = unsafe {
        let found = through_the_door(|| PyDict_GetItemWithError(dict.as_ptr(), key.as_ptr()));
        Bound::from_borrowed_ptr_or_opt(py, found)
    };
    match found {
        Some(found) => Ok(Some(found)),
        None => PyErr::take(py).map_or(Ok(None), Err),
    }
}

/// The items of an iterable, one by one.
pub struct Items<'py>(Bound<'py, PyAny>);

/// Iterates over an iterable of the user's.
pub fn items<'py>(iterable: &Bound<'py, PyAny>) -> PyResult<Items<'py>> {
    // SAFETY: the GIL is held and the object is alive; the answer is a new reference, or null with an exception set.
    let iterator = unsafe {
        let iterator = through_the_door(|| PyObject_GetIter(iterable.as_ptr()));
        Bound::from_owned_ptr_or_err(iterable.py(), iterator)
    };
    iterator.map(Items)
}

impl<'py> Iterator for Items<'py> {
    type Item = PyResult<Bound<'py, PyAny>>;

    fn next(&mut self) -> Option<Self::Item> {
        let py = self.0.py();
        // SAFETY: the GIL is held and the iterator is one; the answer is a new reference, or null, with an exception
        // set if the end is not the reason.
        let item = unsafe {
            let item = through_the_door(|| PyIter_Next(self.0.as_ptr()));
            Bound::from_owned_ptr_or_opt(py, item)
        };
        item.map(Ok).or_else(|| PyErr::take(py).map(Err))
    }
}

/// Makes a list with `length` empty slots. Before Python 3.12 the garbage collector may run in here,
/// and with it the finalisers of any object.
pub fn empty_list(py: Python<'_>, length: usize) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: the GIL is held; the answer is a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, through_the_door(|| PyList_New(length as Py_ssize_t))) }
}

/// Gives back a reference that may be the last to an object of the user's.
pub fn let_go(object: Bound<'_, PyAny>) {
    let object = object.into_ptr();
    // SAFETY: the GIL was held by the reference, which is given up here.
    through_the_door(|| unsafe { Py_DecRef(object) });
}
