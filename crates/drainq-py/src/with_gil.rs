//! Counts references and reads dicts and lists with the GIL as the lock. `without_gil.rs` has the same names.

use pyo3::ffi::{self, Py_ssize_t};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counts one more reference to `object`, inline, because a call would cost as much as the rest of a produce call.
///
/// The stable ABI of 3.10 allows it: its headers do the same. An immortal object is not counted, because the
/// interpreter would never count it down again. In CPython since 3.12 an object is immortal if the lower half of its
/// first word is negative. In older versions that half is negative if there are 2^31 references, which all count.
#[inline(always)]
pub fn count_reference(object: &Bound<'_, PyAny>) {
    if cfg!(not(target_pointer_width = "64")) {
        // SAFETY: the object is alive, and the GIL is held.
        return unsafe { ffi::Py_IncRef(object.as_ptr()) };
    }
    let count = object.as_ptr().cast::<i64>();
    // SAFETY: the object is alive, the GIL is held, and the count is the object's first word in
    // every 64-bit CPython with a GIL.
    unsafe {
        if (*count as i32) >= 0 || !HAS_IMMORTAL_OBJECTS.load(Ordering::Relaxed) {
            *count += 1;
        }
    }
}

/// Whether the interpreter has objects that it does not count (PEP 683).
static HAS_IMMORTAL_OBJECTS: AtomicBool = AtomicBool::new(true);

/// Sets [`HAS_IMMORTAL_OBJECTS`], when the module is loaded.
pub fn learn_how_to_count(py: Python<'_>) {
    HAS_IMMORTAL_OBJECTS.store(py.version_info() >= (3, 12), Ordering::Relaxed);
}

/// Adds to a counter that threads change only with the GIL held, and read without the GIL.
#[inline(always)]
pub fn add(_py: Python<'_>, to: &AtomicU64, more: u64) {
    to.store(to.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// A value in a dict or a tuple, which keeps it alive.
pub type Peeked<'a, 'py> = Borrowed<'a, 'py, PyAny>;

/// Keeps an item of a tuple as a [`Peeked`].
#[inline(always)]
pub fn peeked<'a, 'py>(item: Borrowed<'a, 'py, PyAny>) -> Peeked<'a, 'py> {
    item
}

/// Returns the value of a key in a dict as a borrowed reference; `None` if there was an exception, which is left set.
///
/// # Safety
///
/// The answer is used before Python code runs and before the GIL is released, because both may change the dict.
#[inline]
pub unsafe fn peek_or_set<'a, 'py>(
    dict: &'a Bound<'py, PyDict>,
    key: &Bound<'py, PyAny>,
) -> Option<Option<Peeked<'a, 'py>>> {
    // SAFETY: the GIL is held and the objects are alive; the answer is borrowed from the dict, or null, with an
    // exception set if there was one.
    let found = unsafe {
        let found = ffi::PyDict_GetItemWithError(dict.as_ptr(), key.as_ptr());
        Borrowed::from_ptr_or_opt(key.py(), found)
    };
    (found.is_some() || !PyErr::occurred(key.py())).then_some(found)
}

/// Runs `work` alone with a list: no other thread changes the list, or is alone with it, until Python code runs.
#[inline(always)]
pub fn alone_with<R>(_object: &Bound<'_, PyAny>, work: impl FnOnce() -> R) -> R {
    work()
}

/// Fills an empty place of a new list with an object, whose reference the list takes over.
///
/// # Safety
///
/// The list has the place, and the reference is the caller's.
#[inline(always)]
pub unsafe fn fill(list: &Bound<'_, PyAny>, place: usize, object: *mut ffi::PyObject) {
    // SAFETY: the GIL is held; the caller promises the rest.
    unsafe { ffi::PyList_SetItem(list.as_ptr(), place as Py_ssize_t, object) };
}
