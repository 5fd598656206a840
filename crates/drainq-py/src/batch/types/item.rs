//! The ring item: a pointer to a Python object and the key of its type, in one word.
//!
//! # Invariants
//! 1. An item owns one reference to its object, from [`Item::new`] until the reference is
//!    given to a list or dropped.
//! 2. The upper 16 bits of an object's address are zero (checked when the item is made), so
//!    they can hold the key.
//! 3. If the lowest bit of the word is set, the word holds the address of a `Weighed` that this item owns,
//!    not that of the object. Objects and boxes lie at even addresses.
//! 4. References are made and given back by threads that are attached to the interpreter: with the GIL held, if there
//!    is one.

use crate::objects::{self, count_reference};
use crate::{errors, gil};
use drainq_core::batch::{Key, Keyed};
use drainq_core::ring::WordItem;
use pyo3::ffi;
use pyo3::prelude::*;
use std::alloc::{Layout, alloc};
use std::ptr::NonNull;

/// Bits of an address; those above hold the key.
pub const KEY_SHIFT: u32 = 48;

/// Whether the upper bits of an address are free (invariant 2).
#[inline(always)]
pub fn leaves_room_for_a_key(address: usize) -> bool {
    address >> KEY_SHIFT == 0
}

/// The number of keys that fit beside a pointer.
pub const MAX_KEYS: usize = 1 << 16;

const WEIGHED: usize = 1;

/// An object and its weight: the number of items that it counts for.
struct Weighed {
    object: NonNull<ffi::PyObject>,
    weight: u64,
}

/// An object of a known type.
pub struct Item(NonNull<()>);

// SAFETY: the word is only turned back into a Python reference by an attached thread
// (invariant 4); moving the word between threads touches no reference count.
unsafe impl Send for Item {}

impl Item {
    /// Takes a reference to `object`.
    #[inline]
    pub fn new(object: &Bound<'_, PyAny>, key: Key) -> PyResult<Self> {
        let item = Self::pack(NonNull::new(object.as_ptr()).expect("a reference is not null").cast(), key)?;
        count_reference(object);
        Ok(item)
    }

    /// Whether the upper bits of the object's address are free for a key (invariant 2).
    #[inline(always)]
    pub fn fits(object: &Bound<'_, PyAny>) -> bool {
        leaves_room_for_a_key(object.as_ptr().addr())
    }

    /// Makes an item as [`Item::new`] does, for a key that is shifted into the upper 16 bits.
    ///
    /// # Safety
    ///
    /// The object fits, and nothing is below the key in `tag`.
    #[inline(always)]
    pub unsafe fn tagged(object: &Bound<'_, PyAny>, tag: u64) -> Self {
        count_reference(object);
        // SAFETY: a reference is not null, and the tag only adds bits.
        Self(unsafe { NonNull::new_unchecked(object.as_ptr().cast::<()>().map_addr(|address| address | tag as usize)) })
    }

    /// Takes a reference to an object that counts for `weight` items: without a weight, for one.
    pub fn of(object: &Bound<'_, PyAny>, key: Key, weight: Option<u64>) -> PyResult<Self> {
        match weight {
            None => Self::new(object, key),
            Some(weight) => Self::weighed(object, key, weight),
        }
    }

    /// Takes a reference to an object that counts for `weight` items.
    fn weighed(object: &Bound<'_, PyAny>, key: Key, weight: u64) -> PyResult<Self> {
        // SAFETY: a `Weighed` has a size.
        let memory = unsafe { alloc(Layout::new::<Weighed>()) }.cast::<Weighed>();
        let Some(boxed) = NonNull::new(memory) else { return Err(errors::no_memory(object.py())) };
        count_reference(object);
        let object = NonNull::new(object.as_ptr()).expect("a reference is not null");
        // SAFETY: the memory is of this layout, from the allocator that boxes use, and has no other owner.
        unsafe { boxed.write(Weighed { object, weight }) };
        Self::pack(boxed.cast::<()>().map_addr(|address| address | WEIGHED), key)
    }

    #[inline]
    fn pack(word: NonNull<()>, key: Key) -> PyResult<Self> {
        if !leaves_room_for_a_key(word.addr().get()) {
            return Err(errors::internal(format!(
                "the object lies at {word:?}, above the 48 address bits that drainq supports"
            )));
        }
        Ok(Self(word.map_addr(|address| address | (key as usize) << KEY_SHIFT)))
    }

    #[inline]
    fn address(&self) -> *mut () {
        self.0.as_ptr().map_addr(|address| address & ((1 << KEY_SHIFT) - 1) & !WEIGHED)
    }

    #[inline]
    fn is_weighed(&self) -> bool {
        self.0.addr().get() & WEIGHED != 0
    }

    /// Gives the reference up.
    #[inline]
    fn into_object(self) -> *mut ffi::PyObject {
        let address = self.address();
        let weighed = self.is_weighed();
        std::mem::forget(self);
        if weighed {
            // SAFETY: the box was leaked when the item was made, and the item owned it
            // (invariant 3).
            return unsafe { Box::from_raw(address.cast::<Weighed>()) }.object.as_ptr();
        }
        address.cast()
    }

    /// Moves all items into a new list, in order.
    pub fn list<'py>(py: Python<'py>, items: &mut Vec<Self>) -> PyResult<Bound<'py, PyAny>> {
        let list = gil::empty_list(py, items.len())?;
        for (position, item) in items.drain(..).enumerate() {
            // SAFETY: the position exists and is empty; the list takes over the item's
            // reference (invariant 1).
            unsafe { objects::fill(&list, position, item.into_object()) };
        }
        Ok(list)
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        // SAFETY: the word is not used again, and the copy is not dropped.
        let object = unsafe { Self::from_word(self.0) }.into_object();
        // Without an interpreter there is nothing to give the reference back to.
        // SAFETY: this item owns the reference (invariant 1), and `held` holds the GIL.
        gil::held(|py| drop(unsafe { Bound::from_owned_ptr(py, object) }));
    }
}

impl WordItem for Item {
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

    fn weight(&self) -> u64 {
        if !self.is_weighed() {
            return 1;
        }
        // SAFETY: the item owns the box (invariant 3).
        unsafe { (*self.address().cast::<Weighed>()).weight }
    }
}
