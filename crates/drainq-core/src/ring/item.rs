//! Ring items: values that become one machine word in a slot, so that a queued item costs eight bytes and one store.
//!
//! Source: pointer-like slots as in the JCTools queues, where null means empty.

use crate::sync::plain::Arc;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

/// A value that turns into one non-null word, and back.
pub trait RingItem: Send + Sized + 'static {
    /// Turns the value into its word. Must not panic, because the ring has claimed a slot for it.
    fn into_word(self) -> NonNull<()>;

    /// Turns a word back into its value.
    ///
    /// # Safety
    ///
    /// `word` came from [`RingItem::into_word`] of the same type and is not used again.
    unsafe fn from_word(word: NonNull<()>) -> Self;
}

impl RingItem for NonZeroUsize {
    #[inline]
    fn into_word(self) -> NonNull<()> {
        NonNull::new(std::ptr::without_provenance_mut(self.get())).expect("not zero")
    }

    #[inline]
    unsafe fn from_word(word: NonNull<()>) -> Self {
        word.addr()
    }
}

impl<T: Send + 'static> RingItem for Box<T> {
    fn into_word(self) -> NonNull<()> {
        NonNull::from(Box::leak(self)).cast()
    }

    unsafe fn from_word(word: NonNull<()>) -> Self {
        // SAFETY: the caller promises that the word is a leaked box of this type, unused since.
        unsafe { Box::from_raw(word.cast().as_ptr()) }
    }
}

impl<T: Send + Sync + 'static> RingItem for Arc<T> {
    fn into_word(self) -> NonNull<()> {
        NonNull::new(Arc::into_raw(self).cast_mut()).expect("an Arc is never null").cast()
    }

    unsafe fn from_word(word: NonNull<()>) -> Self {
        // SAFETY: the caller promises that the word is a leaked Arc, unused since.
        unsafe { Arc::from_raw(word.cast().as_ptr()) }
    }
}
