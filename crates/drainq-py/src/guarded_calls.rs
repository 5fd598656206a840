//! The door: a wrapper around each C function of CPython that this module calls and that may run Python code.
//!
//! Up to Python 3.13, CPython calls `pthread_exit` in a thread that asks for the GIL while the interpreter is going
//! away, and glibc's `pthread_exit` unwinds the thread's stack. Rust allows no such unwinding through its frames: the
//! process would abort. If that happens in Python code that this module called, the door halts the thread for ever
//! instead, as Python 3.14 does by itself.
//!
//! The linker puts the door in place (`--wrap`, given by `build.rs`): a call of `X` from any code in this module,
//! PyO3's included, arrives at `__wrap_X` below, which calls CPython's own `X` under the name `__real_X`. So no call
//! can bypass the door. Nor can a drop of a `Py`, a `Bound`, a `PyErr` or a collection of them, because each drop
//! calls `_Py_DecRef`.
//!
//! # Invariants
//! 1. Every function of CPython that this module imports is in the list below, or runs no Python code, or handles the
//!    end of the thread itself. `tests/shape/test_door.py` checks this on the built module.
//! 2. The real functions are declared to unwind, so that the compiler keeps the landing pad of the [`Halt`] around
//!    them.
//! 3. A halted thread holds no lock of drainq that the end of the process needs: the only lock held while Python code
//!    runs is the lock that keeps the calls of a handler apart.
//!
//! Source: `HangThread` in pyo3-ffi, which does the same when PyO3 takes the GIL; `--wrap` in the manual of ld.

use std::mem;

/// Halts the thread for ever when the value is dropped, which happens only during unwinding.
struct Halt;

impl Drop for Halt {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

/// Runs `work`, one C function that may run Python code. Halts the thread if CPython ends the thread in `work`.
#[inline(always)]
pub fn through_the_door<R>(work: impl FnOnce() -> R) -> R {
    let halt = Halt;
    let done = work();
    mem::forget(halt);
    done
}

/// Defines `__wrap_X` for every function `X` of the list. `build.rs` reads the same list.
macro_rules! through_the_door {
    ($(fn $name:ident($($argument:ident: $of:ty),*) $(-> $answer:ty)?;)*) => {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        #[allow(unused_imports, reason = "the second list needs few of these types")]
        const _: () = {
            #[cfg(all(Py_GIL_DISABLED, not(Py_LIMITED_API)))]
            use pyo3::ffi::{PyCriticalSection, PyThreadState};
            use pyo3::ffi::{PyObject, Py_hash_t, Py_ssize_t};
            use std::ffi::{c_char, c_double, c_int, c_long, c_ulonglong};
            $(
                const _: () = {
                    unsafe extern "C-unwind" {
                        #[link_name = concat!("__real_", stringify!($name))]
                        fn real($($argument: $of),*) $(-> $answer)?;
                    }

                    #[unsafe(export_name = concat!("__wrap_", stringify!($name)))]
                    unsafe extern "C-unwind" fn wrapped($($argument: $of),*) $(-> $answer)? {
                        // SAFETY: the arguments are passed on unchanged to the function that the caller named.
                        through_the_door(|| unsafe { real($($argument),*) })
                    }
                };
            )*
        };
    };
}

through_the_door! {
    fn _Py_DecRef(a: *mut PyObject);
    fn _Py_Dealloc(a: *mut PyObject);
    fn Py_DecRef(a: *mut PyObject);
    fn PyDict_Clear(a: *mut PyObject);
    fn PyDict_SetItem(a: *mut PyObject, b: *mut PyObject, c: *mut PyObject) -> c_int;
    fn PyDict_Update(a: *mut PyObject, b: *mut PyObject) -> c_int;
    fn PyDict_GetItemWithError(a: *mut PyObject, b: *mut PyObject) -> *mut PyObject;
    fn PyDict_New() -> *mut PyObject;
    fn PyDict_Keys(a: *mut PyObject) -> *mut PyObject;
    fn PyErr_Clear();
    fn PyErr_NoMemory() -> *mut PyObject;
    fn PyErr_Restore(a: *mut PyObject, b: *mut PyObject, c: *mut PyObject);
    fn PyErr_SetObject(a: *mut PyObject, b: *mut PyObject);
    fn PyErr_SetString(a: *mut PyObject, b: *const c_char);
    fn PyErr_WarnEx(a: *mut PyObject, b: *const c_char, c: Py_ssize_t) -> c_int;
    fn PyErr_WriteUnraisable(a: *mut PyObject);
    fn PyErr_PrintEx(a: c_int);
    fn PyErr_NormalizeException(a: *mut *mut PyObject, b: *mut *mut PyObject, c: *mut *mut PyObject);
    fn PyErr_NewExceptionWithDoc(a: *const c_char, b: *const c_char, c: *mut PyObject, d: *mut PyObject) -> *mut PyObject;
    fn PyErr_CheckSignals() -> c_int;
    fn PyException_SetCause(a: *mut PyObject, b: *mut PyObject);
    fn PyException_SetTraceback(a: *mut PyObject, b: *mut PyObject) -> c_int;
    fn PyFloat_AsDouble(a: *mut PyObject) -> c_double;
    fn PyImport_Import(a: *mut PyObject) -> *mut PyObject;
    fn PyIter_Next(a: *mut PyObject) -> *mut PyObject;
    fn PyList_Append(a: *mut PyObject, b: *mut PyObject) -> c_int;
    fn PyList_New(a: Py_ssize_t) -> *mut PyObject;
    fn PyLong_AsLong(a: *mut PyObject) -> c_long;
    fn PyLong_AsUnsignedLongLong(a: *mut PyObject) -> c_ulonglong;
    fn PyNumber_Index(a: *mut PyObject) -> *mut PyObject;
    fn PyObject_Call(a: *mut PyObject, b: *mut PyObject, c: *mut PyObject) -> *mut PyObject;
    fn PyObject_CallNoArgs(a: *mut PyObject) -> *mut PyObject;
    fn PyObject_CallObject(a: *mut PyObject, b: *mut PyObject) -> *mut PyObject;
    fn PyObject_ClearWeakRefs(a: *mut PyObject);
    fn PyObject_DelItem(a: *mut PyObject, b: *mut PyObject) -> c_int;
    fn PyObject_GetAttr(a: *mut PyObject, b: *mut PyObject) -> *mut PyObject;
    fn PyObject_GetItem(a: *mut PyObject, b: *mut PyObject) -> *mut PyObject;
    fn PyObject_GetIter(a: *mut PyObject) -> *mut PyObject;
    fn PyObject_Hash(a: *mut PyObject) -> Py_hash_t;
    fn PyObject_IsInstance(a: *mut PyObject, b: *mut PyObject) -> c_int;
    fn PyObject_IsSubclass(a: *mut PyObject, b: *mut PyObject) -> c_int;
    fn PyObject_IsTrue(a: *mut PyObject) -> c_int;
    fn PyObject_Repr(a: *mut PyObject) -> *mut PyObject;
    fn PyObject_RichCompare(a: *mut PyObject, b: *mut PyObject, c: c_int) -> *mut PyObject;
    fn PyObject_RichCompareBool(a: *mut PyObject, b: *mut PyObject, c: c_int) -> c_int;
    fn PyObject_SetAttr(a: *mut PyObject, b: *mut PyObject, c: *mut PyObject) -> c_int;
    fn PyObject_SetAttrString(a: *mut PyObject, b: *const c_char, c: *mut PyObject) -> c_int;
    fn PyObject_SetItem(a: *mut PyObject, b: *mut PyObject, c: *mut PyObject) -> c_int;
    fn PyObject_Size(a: *mut PyObject) -> Py_ssize_t;
    fn PyObject_Str(a: *mut PyObject) -> *mut PyObject;
    fn PyTraceBack_Print(a: *mut PyObject, b: *mut PyObject) -> c_int;
    fn PyTuple_New(a: Py_ssize_t) -> *mut PyObject;
    fn PyWeakref_NewRef(a: *mut PyObject, b: *mut PyObject) -> *mut PyObject;
    fn PyErr_GivenExceptionMatches(a: *mut PyObject, b: *mut PyObject) -> c_int;
    fn PyErr_ExceptionMatches(a: *mut PyObject) -> c_int;
    fn PyGILState_Release(a: c_int);
    fn PySlice_New(a: *mut PyObject, b: *mut PyObject, c: *mut PyObject) -> *mut PyObject;
    fn Py_GenericAlias(a: *mut PyObject, b: *mut PyObject) -> *mut PyObject;
    fn PyErr_Fetch(a: *mut *mut PyObject, b: *mut *mut PyObject, c: *mut *mut PyObject);
}

// PyO3 calls these only in a module that is built for a single version of CPython.
#[cfg(not(Py_LIMITED_API))]
through_the_door! {
    fn PyObject_VectorcallMethod(a: *mut PyObject, b: *const *mut PyObject, c: usize, d: *mut PyObject) -> *mut PyObject;
}

// PyO3 calls these only in a module for a CPython without a GIL, in which a thread that waits for an object's lock is
// not attached. The version of PyO3 for CPython 3.13 does not halt a thread by itself.
#[cfg(all(Py_GIL_DISABLED, not(Py_LIMITED_API)))]
through_the_door! {
    fn PyCriticalSection_Begin(a: *mut PyCriticalSection, b: *mut PyObject);
    fn PyDict_GetItemRef(a: *mut PyObject, b: *mut PyObject, c: *mut *mut PyObject) -> c_int;
    fn PyErr_SetRaisedException(a: *mut PyObject);
    fn PyEval_RestoreThread(a: *mut PyThreadState);
    fn PyGILState_Ensure() -> c_int;
    fn PyObject_GetOptionalAttr(a: *mut PyObject, b: *mut PyObject, c: *mut *mut PyObject) -> c_int;
}
