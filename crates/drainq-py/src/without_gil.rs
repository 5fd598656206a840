//! Counts references and reads dicts and lists as a free-threaded CPython requires. `with_gil.rs` has the same names.
//!
//! An object has two counts there: that of the thread that made it, which is a plain number, and that of all other
//! threads, which is atomic. A queue's reference is counted in the second one. So a drain thread can give it back
//! without the first thread, and an object that only the queue holds ends on the drain thread, as it does under a GIL.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::critical_section::with_critical_section;
use pyo3::types::PyDict;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts one more reference to `object`, unless it is immortal, in the count of all threads.
#[cfg(not(Py_LIMITED_API))]
#[inline(always)]
pub fn count_reference(object: &Bound<'_, PyAny>) {
    /// The shared count is a number above two bits of state.
    const ONE: isize = 1 << 2;
    // SAFETY: the object is alive; its counts are atomics, at the places that the headers of this version give.
    let header = unsafe { &*object.as_ptr() };
    if header.ob_ref_local.load(Ordering::Relaxed) != u32::MAX {
        header.ob_ref_shared.fetch_add(ONE, Ordering::Relaxed);
    }
}

/// Counts one more reference to `object`.
#[cfg(Py_LIMITED_API)]
pub fn count_reference(object: &Bound<'_, PyAny>) {
    // SAFETY: the object is alive.
    unsafe { ffi::Py_IncRef(object.as_ptr()) };
}

/// Does nothing: all such interpreters count alike.
pub fn learn_how_to_count(_py: Python<'_>) {}

/// Adds to a counter.
#[inline(always)]
pub fn add(_py: Python<'_>, to: &AtomicU64, more: u64) {
    to.fetch_add(more, Ordering::Relaxed);
}

/// A value in a dict or a tuple, with a reference of its own: the dict may lose it at any time.
pub struct Peeked<'a, 'py>(Bound<'py, PyAny>, PhantomData<&'a ()>);

impl<'py> Deref for Peeked<'_, 'py> {
    type Target = Bound<'py, PyAny>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Keeps an item of a tuple as a [`Peeked`].
#[inline(always)]
pub fn peeked<'a, 'py>(item: Borrowed<'a, 'py, PyAny>) -> Peeked<'a, 'py> {
    Peeked(item.to_owned(), PhantomData)
}

/// Returns the value of a key in a dict; `None` if there was an exception, which is left set.
///
/// # Safety
///
/// There is no requirement here; the same function in `with_gil.rs` has one.
#[inline]
pub unsafe fn peek_or_set<'a, 'py>(
    dict: &'a Bound<'py, PyDict>,
    key: &Bound<'py, PyAny>,
) -> Option<Option<Peeked<'a, 'py>>> {
    let mut found = ptr::null_mut();
    // SAFETY: the objects are alive; the answer is -1 with an exception set, or `found` is null or a new reference.
    let found = unsafe {
        match ffi::PyDict_GetItemRef(dict.as_ptr(), key.as_ptr(), &mut found) {
            ..=-1 => return None,
            _ => Bound::from_owned_ptr_or_opt(key.py(), found),
        }
    };
    Some(found.map(|found| Peeked(found, PhantomData)))
}

/// Runs `work` with the lock of a list: no other thread changes the list, or has its lock, until this thread waits.
#[inline(always)]
pub fn alone_with<R>(object: &Bound<'_, PyAny>, work: impl FnOnce() -> R) -> R {
    with_critical_section(object, work)
}

/// Fills an empty place of a new list with an object, whose reference the list takes over.
///
/// # Safety
///
/// The list has the place, no other thread has the list, and the reference is the caller's.
#[inline(always)]
pub unsafe fn fill(list: &Bound<'_, PyAny>, place: usize, object: *mut ffi::PyObject) {
    // SAFETY: the caller promises what is asked for.
    #[cfg(not(Py_LIMITED_API))]
    unsafe {
        ffi::PyList_SET_ITEM(list.as_ptr(), place as ffi::Py_ssize_t, object)
    };
    // SAFETY: as above.
    #[cfg(Py_LIMITED_API)]
    unsafe {
        ffi::PyList_SetItem(list.as_ptr(), place as ffi::Py_ssize_t, object)
    };
}
