//! A list that only grows, read without a lock, whose elements never move.
//!
//! Elements live in chunks, each twice as large as the one before. A chunk is never
//! replaced, so a reference to an element lives as long as the table.
//!
//! # Invariants
//! 1. `chunks[k]` is null or points to the chunk for the indices `FIRST * (2^k - 1) ..`, for
//!    ever. It is stored before `len` grows over its first index.
//! 2. An element is written before `len` grows over it with `Release`, and never again. A
//!    reader that loads a larger `len` with `Acquire` sees it whole.
//! 3. A thread appends under the lock `grow`, so one thread at a time appends.
//!
//! Source: the doubling chunks of the `thread_local` and `boxcar` crates.

use crate::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::sync::{Mutex, order};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

/// Elements of the first chunk.
#[cfg(not(loom))]
const FIRST: usize = 64;
#[cfg(loom)]
const FIRST: usize = 1;

/// Chunks at most: room for `FIRST * (2^CHUNKS - 1)` elements.
#[cfg(not(loom))]
const CHUNKS: usize = 20;
#[cfg(loom)]
const CHUNKS: usize = 3;

/// An append-only list.
pub struct Table<T> {
    chunks: [AtomicPtr<MaybeUninit<T>>; CHUNKS],
    len: AtomicUsize,
    grow: Mutex<()>,
}

/// The address of an element of a table, which is valid for as long as the table lives.
pub struct Pinned<T>(NonNull<T>);

// SAFETY: the pointer is only followed through the table, which is Sync if T is Send and Sync.
unsafe impl<T: Send + Sync> Send for Pinned<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Pinned<T> {}

// SAFETY: the table owns its elements and gives out shared references only (invariant 2).
unsafe impl<T: Send + Sync> Send for Table<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Table<T> {}

/// Returns the chunk of an index, and the offset in it.
#[inline]
fn locate(index: usize) -> (usize, usize) {
    if index < FIRST {
        return (0, index); // The case that is worth a branch: most queues are small.
    }
    let shifted = index / FIRST + 1;
    let chunk = shifted.ilog2() as usize;
    (chunk, index - FIRST * ((1 << chunk) - 1))
}

impl<T> Table<T> {
    /// Makes an empty table.
    pub fn new() -> Self {
        Self {
            chunks: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            len: AtomicUsize::new(0),
            grow: Mutex::new(()),
        }
    }

    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len.load(order("table_read", Ordering::Acquire))
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the element at `index`, if there is one.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        if index >= self.len() {
            return None;
        }
        let (chunk, offset) = locate(index);
        let elements = self.chunks[chunk].load(Ordering::Relaxed);
        debug_assert!(!elements.is_null(), "the chunk of an element below len is there");
        // SAFETY: `index < len`, so the chunk and the element are there for good
        // (invariants 1 and 2), and `locate` stays within the chunk.
        Some(unsafe { (*elements.add(offset)).assume_init_ref() })
    }

    /// Returns the address of an element, cheaper to follow than its index.
    pub fn pin(&self, index: usize) -> Option<Pinned<T>> {
        self.get(index).map(|element| Pinned(NonNull::from(element)))
    }

    /// Returns the element at a pinned address.
    ///
    /// # Safety
    ///
    /// `pinned` came from [`Table::pin`] of this table.
    #[inline]
    pub unsafe fn at(&self, pinned: &Pinned<T>) -> &T {
        // SAFETY: elements never move and live as long as the table, which `&self` borrows.
        unsafe { pinned.0.as_ref() }
    }

    /// Returns an iterator over the elements that the table has now.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len()).map_while(|index| self.get(index))
    }

    /// Appends the result of `make` for the new index. Returns the index.
    pub fn push_with(&self, make: impl FnOnce(usize) -> T) -> usize {
        let _one_at_a_time = self.grow.lock();
        let index = self.len.load(Ordering::Relaxed);
        let (chunk, offset) = locate(index);
        assert!(chunk < CHUNKS, "a table holds at most {} elements", FIRST * ((1 << CHUNKS) - 1));
        let mut elements = self.chunks[chunk].load(Ordering::Relaxed);
        if elements.is_null() {
            let fresh: Box<[MaybeUninit<T>]> = Box::new_uninit_slice(FIRST << chunk);
            elements = Box::leak(fresh).as_mut_ptr();
            self.chunks[chunk].store(elements, Ordering::Relaxed);
        }
        let element = make(index);
        // SAFETY: the offset is within its chunk, beyond `len`, so no thread reads it, and the
        // lock keeps other writers out (invariants 2 and 3).
        unsafe { elements.add(offset).write(MaybeUninit::new(element)) };
        self.len.store(index + 1, order("table_publish", Ordering::Release));
        index
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        let len = self.len();
        for index in 0..len {
            let (chunk, offset) = locate(index);
            let elements = self.chunks[chunk].load(Ordering::Relaxed);
            // SAFETY: the element was written (invariant 2), and `&mut self` proves that
            // no thread refers to it.
            unsafe { (*elements.add(offset)).assume_init_drop() };
        }
        for (chunk, at) in self.chunks.iter().enumerate() {
            let elements = at.load(Ordering::Relaxed);
            if !elements.is_null() {
                let whole = ptr::slice_from_raw_parts_mut(elements, FIRST << chunk);
                // SAFETY: the chunk was leaked from a box of this length (invariant 1).
                drop(unsafe { Box::from_raw(whole) });
            }
        }
    }
}

#[cfg(all(test, not(any(loom, drainq_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn elements_never_move() {
        let table = Table::new();
        table.push_with(|_| 0_usize);
        let first: *const usize = table.get(0).unwrap();
        for value in 1..1_000 {
            table.push_with(|_| value);
        }
        assert_eq!(first, table.get(0).unwrap() as *const usize);
        assert!(table.iter().copied().eq(0..1_000));
        assert!(table.get(1_000).is_none());
    }
}
