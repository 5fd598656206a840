//! Ring items: the values that a ring can hold.
//!
//! A slot holds an item as one machine word ([`WordItem`]), or the item itself ([`Inline`](super::Inline)).
//!
//! Source: pointer-like slots as in the JCTools queues, where null means empty.

use super::slot::{Slot, Word, WordItem};
use crate::sync::plain::Arc;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

/// A value that a ring can hold.
///
/// Each [`WordItem`] is a ring item. One line of code makes a value of up to [`MAX_INLINE`](super::MAX_INLINE) bytes a
/// ring item, which needs no allocation:
///
/// ```
/// use drainq_core::ring::{Inline, Ring, RingItem};
///
/// struct Hit { url: u64, bytes: u32 }
/// impl RingItem for Hit { type Slot = Inline<Self>; }
///
/// let ring = Ring::new(1_000);
/// assert!(ring.push(Hit { url: 7, bytes: 512 }).is_ok());
/// assert_eq!(ring.len(), 1);
/// ```
///
/// A larger value does not compile, because each step from producer to handler would copy it. Put the value in a `Box`:
///
/// ```compile_fail,E0080
/// use drainq_core::ring::{Inline, Ring, RingItem};
///
/// struct Large([u8; 65]);
/// impl RingItem for Large { type Slot = Inline<Self>; }
///
/// assert!(Ring::new(1_000).push(Large([0; 65])).is_ok());
/// ```
pub trait RingItem: Send + Sized + 'static {
    /// The storage of one item in a ring: [`Inline`](super::Inline), or [`Word`] for each [`WordItem`].
    type Slot: Slot<Self>;
}

impl<T: WordItem> RingItem for T {
    type Slot = Word;
}

impl WordItem for NonZeroUsize {
    #[inline]
    fn into_word(self) -> NonNull<()> {
        NonNull::new(std::ptr::without_provenance_mut(self.get())).expect("not zero")
    }

    #[inline]
    unsafe fn from_word(word: NonNull<()>) -> Self {
        word.addr()
    }
}

impl<T: Send + 'static> WordItem for Box<T> {
    fn into_word(self) -> NonNull<()> {
        NonNull::from(Box::leak(self)).cast()
    }

    unsafe fn from_word(word: NonNull<()>) -> Self {
        // SAFETY: the caller promises that the word is a leaked box of this type, unused since.
        unsafe { Box::from_raw(word.cast().as_ptr()) }
    }
}

impl<T: Send + Sync + 'static> WordItem for Arc<T> {
    fn into_word(self) -> NonNull<()> {
        NonNull::new(Arc::into_raw(self).cast_mut()).expect("an Arc is never null").cast()
    }

    unsafe fn from_word(word: NonNull<()>) -> Self {
        // SAFETY: the caller promises that the word is a leaked Arc, unused since.
        unsafe { Arc::from_raw(word.cast().as_ptr()) }
    }
}
