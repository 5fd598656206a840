//! A Python object in a ring: its pointer and the key of its type in one word.
//!
//! # Invariants
//! 1. An item owns one reference to its object, from [`Item::new`] until the reference is
//!    given to a list or dropped.
//! 2. The upper 16 bits of an object's address are zero (checked when the item is made), so
//!    they can hold the key.
//! 3. References are made and given back with the GIL held.

use crate::gil;
use drainq_core::batch::{Key, Keyed};
use drainq_core::word::Word;
use pyo3::exceptions::PySystemError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::ptr::NonNull;

const KEY_SHIFT: u32 = 48;

/// The number of keys that fit beside a pointer.
pub const MAX_KEYS: usize = 1 << 16;

/// An object of a known type.
pub struct Item(NonNull<()>);

// SAFETY: the word is only turned back into a Python reference with the GIL held
// (invariant 3); moving the word between threads touches no reference count.
unsafe impl Send for Item {}

impl Item {
    /// Takes a reference to `object`.
    #[inline]
    pub fn new(object: &Bound<'_, PyAny>, key: Key) -> PyResult<Self> {
        let word = NonNull::new(object.as_ptr()).expect("a reference is not null").cast::<()>();
        if word.addr().get() >> KEY_SHIFT != 0 {
            return Err(PySystemError::new_err(format!(
                "the object lies at {word:?}, above the 48 address bits that drainq supports"
            )));
        }
        std::mem::forget(object.clone());
        Ok(Self(word.map_addr(|address| address | (key as usize) << KEY_SHIFT)))
    }

    fn object(&self) -> *mut ffi::PyObject {
        self.0.as_ptr().map_addr(|address| address & ((1 << KEY_SHIFT) - 1)).cast()
    }

    /// Gives the reference up.
    fn into_object(self) -> *mut ffi::PyObject {
        let object = self.object();
        std::mem::forget(self);
        object
    }

    /// Moves all items into a new list, in order.
    pub fn list<'py>(py: Python<'py>, items: &mut Vec<Self>) -> PyResult<Bound<'py, PyList>> {
        // SAFETY: the GIL is held (`py`), and the result is checked for null by `from_owned_ptr_or_err`.
        let list = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyList_New(items.len() as ffi::Py_ssize_t))? };
        for (place, item) in items.drain(..).enumerate() {
            // SAFETY: the place exists and is empty; the list takes over the item's
            // reference (invariant 1).
            unsafe { ffi::PyList_SetItem(list.as_ptr(), place as ffi::Py_ssize_t, item.into_object()) };
        }
        Ok(list.cast_into()?)
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        let object = self.object();
        // Without an interpreter there is nothing to give the reference back to.
        // SAFETY: this item owns the reference (invariant 1), and `held` holds the GIL.
        gil::held(|py| drop(unsafe { Bound::from_owned_ptr(py, object) }));
    }
}

impl Word for Item {
    #[inline]
    fn into_word(self) -> NonNull<()> {
        let word = self.0;
        std::mem::forget(self);
        word
    }

    #[inline]
    unsafe fn from_word(word: NonNull<()>) -> Self {
        Self(word)
    }
}

impl Keyed for Item {
    #[inline]
    fn key(&self) -> Key {
        (self.0.addr().get() >> KEY_SHIFT) as Key
    }
}
