//! The one file that gives the GIL up and takes it back.

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
