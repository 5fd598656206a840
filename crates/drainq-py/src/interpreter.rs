//! The interpreter that this module serves: the first of the process that loads it, and no other.
//!
//! A sub-interpreter has its own modules and classes, but this crate has statics, and threads that take the GIL
//! without saying for which interpreter. A call from a second interpreter would wait for the GIL that its own
//! thread holds. Python 3.12 refuses the import by itself, but only if a sub-interpreter has a GIL of its own.

use crate::errors;
use pyo3::ffi;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicI64, Ordering};

/// No interpreter has this number.
const NONE: i64 = -1;

/// The number of the interpreter that loaded the module.
static SERVED: AtomicI64 = AtomicI64::new(NONE);

/// Raises ImportError in every interpreter but the first.
pub fn check_is_first(_py: Python<'_>) -> PyResult<()> {
    // SAFETY: the GIL is held, so there is a current interpreter.
    let this = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    match SERVED.compare_exchange(NONE, this, Ordering::Relaxed, Ordering::Relaxed) {
        Err(first) if first != this => Err(errors::bad_import(format!(
            "drainq serves one interpreter of a process, and interpreter {first} has loaded it; it cannot be imported \
             in sub-interpreter {this} as well. Use it in one interpreter, or take processes"
        ))),
        _ => Ok(()),
    }
}
