//! `produce` and `produce_many` as raw methods, which cost half as much as methods with a wrapper.
//!
//! The wrapper that PyO3 generates does PyO3's bookkeeping of references and panics, at about 10 ns a call. A raw
//! method skips these steps if no Python code runs and no call can fail: the item's class, or the dispatch key that it
//! holds, has a route in the cache, and its partition has room. Every other call takes PyO3's steps ([`call_method`]).
//!
//! # Invariants
//! 1. CPython calls a method with the GIL held, with `self` an instance of the class whose
//!    descriptor it is (a method descriptor checks that), and with live arguments.
//! 2. The method definitions live as long as the process: they are leaked.

use super::BatchQueue;
use crate::{errors, gil, objects};
use pyo3::BoundObject;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::CString;
use std::hint::assert_unchecked;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// Calls a method of the class as a wrapper would, and returns its answer or an exception to CPython.
#[cold]
#[inline(never)]
fn call_method<'py, R: IntoPyObject<'py>>(
    queue: &BatchQueue,
    item: &Bound<'py, PyAny>,
    method: impl FnOnce(&BatchQueue, &Bound<'py, PyAny>) -> PyResult<R>,
) -> *mut ffi::PyObject {
    let py = item.py();
    let done = gil::entered(|| {
        catch_unwind(AssertUnwindSafe(|| method(queue, item)))
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

/// Returns the queue and the argument of a raw call.
///
/// # Safety
///
/// CPython passed both to a method of the class (invariant 1).
#[inline(always)]
unsafe fn arguments<'a>(
    queue: *mut ffi::PyObject,
    argument: *mut ffi::PyObject,
) -> (&'a BatchQueue, Borrowed<'a, 'a, PyAny>) {
    // SAFETY: both are live for the call, the GIL is held, `queue` is an instance (invariant 1).
    unsafe {
        assert_unchecked(!queue.is_null() && !argument.is_null());
        let py = Python::assume_attached();
        let queue = Borrowed::from_ptr(py, queue).cast_unchecked::<BatchQueue>();
        (&*ptr::from_ref(queue.get()), Borrowed::from_ptr(py, argument))
    }
}

unsafe extern "C" fn produce(queue: *mut ffi::PyObject, item: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as CPython calls it.
    let (this, object) = unsafe { arguments(queue, item) };
    if this.shared().produce_fast(&object) {
        return py_true(object.py());
    }
    // SAFETY: as CPython calls it. It is the last call of this function, so that the fast path saves no registers for
    // it.
    unsafe { produce_by_name_within(queue, item) }
}

/// Takes the fast path of an item that holds its dispatch key. The next step is again the last call of the function.
#[inline(never)]
unsafe extern "C" fn produce_by_name_within(queue: *mut ffi::PyObject, item: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as CPython calls it.
    let (this, object) = unsafe { arguments(queue, item) };
    let shared = this.shared();
    // SAFETY: no Python code runs, and the GIL is kept, until the item is queued or `produce_named` takes a reference.
    let Some(held) = (unsafe { shared.routing.keys.name_within(&object) }) else { return ptr::null_mut() };
    match held {
        Some(name) if shared.produce_fast_by_name(&object, name.as_ptr().addr()) => py_true(object.py()),
        // SAFETY: as CPython calls it, and the name is alive.
        Some(name) => unsafe { produce_named(queue, item, name.as_ptr()) },
        // SAFETY: as CPython calls it.
        None => unsafe { produce_off_fast_path(queue, item) },
    }
}

#[inline(never)]
unsafe extern "C" fn produce_off_fast_path(queue: *mut ffi::PyObject, item: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as CPython calls it.
    let (this, object) = unsafe { arguments(queue, item) };
    let shared = this.shared();
    if shared.routing.keys.are_types() {
        if shared.produce_by_cached_route(&object) {
            return py_true(object.py());
        }
        return call_method(this, &object, |_, object| shared.produce(object, shared.may_wait()));
    }
    // The dispatch key is called once, whichever path the item takes. CPython raises its exception, and that of a
    // comparison of the returned key.
    let Some(name) = shared.routing.keys.name_or_set(&object) else { return ptr::null_mut() };
    if shared.produce_fast_by_name(&object, name.as_ptr().addr()) {
        return py_true(object.py());
    }
    // SAFETY: as CPython calls it, and the name is alive.
    unsafe { produce_named(queue, item, name.as_ptr()) }
}

/// Queues an item whose dispatch key is known.
#[inline(never)]
unsafe extern "C" fn produce_named(
    queue: *mut ffi::PyObject,
    item: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as CPython calls it.
    let (this, object) = unsafe { arguments(queue, item) };
    let shared = this.shared();
    // SAFETY: the caller has the name alive; from here on this reference keeps it so.
    let name = unsafe { Bound::from_borrowed_ptr(object.py(), name) };
    let Some(is_queued) = shared.produce_by_plain_route(&object, &name) else { return ptr::null_mut() };
    if is_queued {
        return py_true(object.py());
    }
    call_method(this, &object, |_, object| shared.produce_named(object, &name, shared.may_wait()))
}

#[inline(always)]
fn py_true(py: Python<'_>) -> *mut ffi::PyObject {
    // SAFETY: True lives for ever; the GIL is held.
    let answer = unsafe { Borrowed::from_ptr(py, ffi::Py_True()) };
    objects::count_reference(&answer);
    answer.as_ptr()
}

unsafe extern "C" fn produce_many(queue: *mut ffi::PyObject, items: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as CPython calls it.
    let (this, objects) = unsafe { arguments(queue, items) };
    call_method(this, &objects, BatchQueue::produce_many)
}

/// Replaces the wrapped methods by the raw ones, with their documentation.
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
