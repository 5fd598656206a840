//! `produce` and `produce_many` as raw methods: half the price of a method with a wrapper.
//!
//! The wrapper that PyO3 writes takes part in its bookkeeping of references and panics, at
//! about 10 ns a call. These functions go without where nothing can go wrong: the type is
//! known, there is room, nobody is told of anything. All else goes the long way round.
//!
//! # Invariants
//! 1. CPython calls a method with the GIL held, with `self` an instance of the class whose
//!    descriptor it is (a method descriptor checks that), and with live arguments.
//! 2. The method definitions live as long as the process: they are leaked.

use crate::batch::queue::BatchQueue;
use crate::{errors, gil};
use pyo3::BoundObject;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::CString;
use std::hint::assert_unchecked;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// Runs the long way round, with an answer or an exception for CPython.
#[cold]
#[inline(never)]
fn answer<'py, R: IntoPyObject<'py>>(
    queue: &BatchQueue,
    item: &Bound<'py, PyAny>,
    call: fn(&BatchQueue, &Bound<'py, PyAny>) -> PyResult<R>,
) -> *mut ffi::PyObject {
    let py = item.py();
    let done = gil::entered(|| {
        catch_unwind(AssertUnwindSafe(|| call(queue, item)))
            .unwrap_or_else(|_| Err(errors::internal("drainq: a bug; please report it")))
    });
    match done.and_then(|answer| answer.into_pyobject(py).map(BoundObject::into_any).map_err(Into::into)) {
        Ok(answer) => answer.into_bound().into_ptr(),
        Err(error) => {
            error.restore(py);
            ptr::null_mut()
        }
    }
}

/// The queue and the argument of a call.
///
/// # Safety
///
/// They are those that CPython calls a method of the class with (invariant 1).
#[inline(always)]
unsafe fn called<'a>(
    queue: *mut ffi::PyObject,
    argument: *mut ffi::PyObject,
) -> (&'a BatchQueue, Borrowed<'a, 'a, PyAny>) {
    // SAFETY: both are live for the call, the GIL is held, `queue` is an instance (invariant 1).
    unsafe {
        assert_unchecked(!queue.is_null() && !argument.is_null());
        let py = Python::assume_attached();
        let queue = Borrowed::from_ptr(py, queue).cast_unchecked::<BatchQueue>();
        (queue.get(), Borrowed::from_ptr(py, argument))
    }
}

unsafe extern "C" fn produce(queue: *mut ffi::PyObject, item: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as CPython calls it.
    let (this, object) = unsafe { called(queue, item) };
    if this.shared().produce_calm(&object) {
        return truth(object.py());
    }
    // SAFETY: as CPython calls it. A call as the last thing: nothing is kept over it.
    unsafe { produce_otherwise(queue, item) }
}

#[cold]
#[inline(never)]
unsafe extern "C" fn produce_otherwise(queue: *mut ffi::PyObject, item: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as CPython calls it.
    let (this, object) = unsafe { called(queue, item) };
    if this.shared().produce_attentively(&object) {
        return truth(object.py());
    }
    answer(this, &object, BatchQueue::produce)
}

#[inline(always)]
fn truth(py: Python<'_>) -> *mut ffi::PyObject {
    // SAFETY: True lives for ever; the GIL is held.
    let answer = unsafe { Borrowed::from_ptr(py, ffi::Py_True()) };
    gil::count_reference(&answer);
    answer.as_ptr()
}

unsafe extern "C" fn produce_many(queue: *mut ffi::PyObject, items: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as CPython calls it.
    let (this, objects) = unsafe { called(queue, items) };
    answer(this, &objects, BatchQueue::produce_many)
}

/// Puts the raw methods in the place of the wrapped ones, with their documentation.
pub fn install(py: Python<'_>) -> PyResult<()> {
    let class = py.get_type::<BatchQueue>();
    let methods: [(&str, ffi::PyCFunction); 2] = [("produce", produce), ("produce_many", produce_many)];
    for (name, function) in methods {
        let wrapped = class.getattr(name)?;
        let text = |attribute| wrapped.getattr(attribute)?.extract::<String>();
        let signature = text("__text_signature__")?;
        let doc = CString::new(format!("{}{signature}\n--\n\n{}", name, text("__doc__")?))?;
        let definition = Box::leak(Box::new(ffi::PyMethodDef {
            ml_name: CString::new(name)?.into_raw(),
            ml_meth: ffi::PyMethodDefPointer { PyCFunction: function },
            ml_flags: ffi::METH_O,
            ml_doc: CString::into_raw(doc),
        }));
        // SAFETY: the GIL is held, the class is a type, and the definition lives for ever
        // (invariant 2).
        let method =
            unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyDescr_NewMethod(class.as_type_ptr(), definition))? };
        class.setattr(name, method)?;
    }
    Ok(())
}
