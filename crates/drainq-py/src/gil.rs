//! The one file that gives the GIL up and takes it back.

use pyo3::ffi::Py_ssize_t;
use pyo3::marker::Ungil;
use pyo3::prelude::*;

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
/// PyO3 learns of the GIL by it, so that references dropped on the way are given back at once.
pub fn entered<R>(work: impl FnOnce() -> R) -> R {
    Python::attach(|_| work())
}

/// Counts one more reference to `object`, in place, where a call would cost as much as the rest.
///
/// The stable ABI of 3.10 allows it: its headers do the same. An immortal object of a newer Python
/// may look mortal for as long as the reference is held, which PEP 683 provides for.
#[inline(always)]
pub fn count_reference(object: &Bound<'_, PyAny>) {
    // SAFETY: the object is alive, the GIL is held, and the count is the object's first word in
    // every CPython with a GIL.
    unsafe { *object.as_ptr().cast::<Py_ssize_t>() += 1 }
}
