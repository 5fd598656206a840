//! Slots: the storage of one ring item, as a word or inline.
//!
//! # Invariants
//! 9. Zeroed memory is an empty slot, so the memory of a segment needs no other preparation.
//! 10. In an inline slot, the item is there if the mark is set. The producer writes the item and then sets the mark
//!     with `Release`; the consumer reads the mark with `Acquire` before it reads the item. So only one thread at a
//!     time touches the item.
//! 11. A slot is accessed through a raw pointer. After the publication the segment of the slot may be freed, so no
//!     reference to the whole slot, with its padding, may be alive then.

use crate::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use crate::sync::{UnsafeCell, order};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::{self, NonNull};

/// The size of the largest inline item, in bytes.
pub const MAX_INLINE: usize = 64;

/// The storage of one item, which is empty or holds the item. No other crate can name this trait.
///
/// # Safety
///
/// Zeroed memory is an empty slot (invariant 9).
pub unsafe trait Slot<T> {
    /// Makes an empty slot of a model checker's types, for which zeroed memory is not enough.
    #[cfg(any(loom, drainq_shuttle))]
    fn empty() -> Self;

    /// Puts `item` into the slot for the consumer.
    ///
    /// # Safety
    ///
    /// The calling thread claimed the slot and has not published an item in it (invariants 2 and 4).
    unsafe fn publish(slot: *const Self, item: T);

    /// Empties the slot and returns its item, if it holds one.
    ///
    /// # Safety
    ///
    /// The caller is the consumer (invariant 6), and the slot's segment is in the directory.
    unsafe fn take(slot: *const Self) -> Option<T>;

    /// Calls `see` with the item, if the slot holds one; returns whether it does.
    ///
    /// # Safety
    ///
    /// That of [`Slot::take`].
    unsafe fn show(slot: *const Self, see: impl FnOnce(&T)) -> bool;
}

/// A value that turns into one non-null word, and back, so that a queued item costs eight bytes and one store.
pub trait WordItem: Send + Sized + 'static {
    /// Turns the value into its word. This method must not panic, because the ring has claimed a slot for the value.
    fn into_word(self) -> NonNull<()>;

    /// Turns a word back into its value.
    ///
    /// # Safety
    ///
    /// `word` came from [`WordItem::into_word`] of the same type and is not used again.
    unsafe fn from_word(word: NonNull<()>) -> Self;
}

/// A slot for the word of a [`WordItem`]. Null means empty.
pub struct Word(AtomicPtr<()>);

// SAFETY: zeros are a null pointer, and an atomic pointer has the memory layout of a pointer.
unsafe impl<T: WordItem> Slot<T> for Word {
    #[cfg(any(loom, drainq_shuttle))]
    fn empty() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline(always)]
    unsafe fn publish(slot: *const Self, item: T) {
        // SAFETY: the caller's claim keeps the segment alive (invariant 4).
        unsafe { (*slot).0.store(item.into_word().as_ptr(), order("ring_publish", Ordering::Release)) };
    }

    #[inline(always)]
    unsafe fn take(slot: *const Self) -> Option<T> {
        // SAFETY: the caller is the consumer: the segment lives as long as it is in the directory.
        let word = unsafe { &(*slot).0 };
        let item = NonNull::new(word.load(order("ring_read", Ordering::Acquire)))?;
        word.store(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: the item was published once and its slot is cleared (invariant 2).
        Some(unsafe { T::from_word(item) })
    }

    unsafe fn show(slot: *const Self, see: impl FnOnce(&T)) -> bool {
        // SAFETY: as in `take`.
        let item = NonNull::new(unsafe { (*slot).0.load(Ordering::Acquire) });
        // SAFETY: the item was published, and the ring keeps the item (invariant 2): it is shown and not dropped.
        item.map(|word| see(&ManuallyDrop::new(unsafe { T::from_word(word) }))).is_some()
    }
}

/// A slot for the item itself, of up to [`MAX_INLINE`] bytes, beside a mark. See [`RingItem`](super::RingItem).
pub struct Inline<T> {
    /// Whether the slot holds an item.
    mark: AtomicBool,
    item: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: zeros are an unset mark, beside an item that is read only if the mark is set.
unsafe impl<T> Slot<T> for Inline<T> {
    #[cfg(any(loom, drainq_shuttle))]
    fn empty() -> Self {
        Self { mark: AtomicBool::new(false), item: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    #[inline(always)]
    unsafe fn publish(slot: *const Self, item: T) {
        const { assert!(size_of::<T>() <= MAX_INLINE, "an inline item has at most 64 bytes: use a Box for more") };
        // SAFETY: the caller's claim keeps the segment alive (invariant 4); the slot's mark is not set, so no other
        // thread touches the item (invariants 2 and 10).
        unsafe {
            (*slot).item.with_mut(|at| at.write(MaybeUninit::new(item)));
            (*slot).mark.store(true, order("inline_publish", Ordering::Release));
        }
    }

    #[inline(always)]
    unsafe fn take(slot: *const Self) -> Option<T> {
        // SAFETY: the caller is the consumer: the segment lives as long as it is in the directory.
        let (mark, item) = unsafe { (&(*slot).mark, &(*slot).item) };
        if !mark.load(order("inline_read", Ordering::Acquire)) {
            return None;
        }
        mark.store(false, Ordering::Relaxed);
        // SAFETY: the mark was set, so the item is there (invariant 10), and no producer has the slot before the head
        // is beyond it (invariant 3). With the mark unset the item is read once.
        Some(item.with(|at| unsafe { (*at).assume_init_read() }))
    }

    unsafe fn show(slot: *const Self, see: impl FnOnce(&T)) -> bool {
        // SAFETY: as in `take`.
        let (mark, item) = unsafe { (&(*slot).mark, &(*slot).item) };
        let is_there = mark.load(Ordering::Acquire);
        if is_there {
            // SAFETY: as in `take`, and the item stays in its slot.
            item.with(|at| see(unsafe { (*at).assume_init_ref() }));
        }
        is_there
    }
}
