//! Maps the address of an object to a key and a pointer, without a lock and without a dictionary.
//!
//! # Invariants
//! 1. A slot's `word` is 0, or an address (48 bits) below a key (16 bits). The slot's pointer is written
//!    before the word, and neither changes once the word is not 0.
//! 2. `slots` points to `mask + 1` slots or more: a larger table is stored before its mask, and a
//!    reader loads the mask first. Tables live as long as the map.
//! 3. At least half of the slots are empty, so that a search ends.

use super::item::{KEY_SHIFT, MAX_KEYS, leaves_room_for_a_key};
use drainq_core::batch::Key;
use drainq_core::sync::Mutex;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

const FIRST: usize = 64;

struct Bucket {
    word: AtomicU64,
    value: AtomicPtr<()>,
}

/// The key and the pointer that were added for an address.
#[derive(Clone, Copy)]
pub struct Found {
    /// The key, where an item has it: in the upper 16 bits.
    pub tag: u64,
    /// The pointer.
    pub value: *mut (),
}

impl Found {
    /// Returns the key.
    #[inline]
    pub fn key(self) -> Key {
        (self.tag >> KEY_SHIFT) as Key
    }
}

/// Tables, the last one in use: open addressing, at most half full.
struct Tables {
    all: Vec<(*mut Bucket, usize)>,
    filled: usize,
}

// SAFETY: the pointers are to slots, which are atomic, and are owned by the map.
unsafe impl Send for Tables {}

/// A map that is read without a lock and only grows.
pub struct AddressMap {
    mask: AtomicUsize,
    slots: AtomicPtr<Bucket>,
    tables: Mutex<Tables>,
}

impl AddressMap {
    /// Makes an empty map.
    pub fn new() -> Self {
        let map = Self {
            mask: AtomicUsize::new(0),
            slots: AtomicPtr::new(ptr::null_mut()),
            tables: Mutex::new(Tables { all: Vec::new(), filled: 0 }),
        };
        map.start_table(&mut map.tables.lock(), FIRST, &[]);
        map
    }

    fn start_table(&self, tables: &mut Tables, len: usize, old: &[Bucket]) {
        let empty = || Bucket { word: AtomicU64::new(0), value: AtomicPtr::new(ptr::null_mut()) };
        let table: Box<[Bucket]> = (0..len).map(|_| empty()).collect();
        for slot in old {
            let word = slot.word.load(Ordering::Relaxed);
            if word != 0 {
                fill(&table, word, slot.value.load(Ordering::Relaxed));
            }
        }
        let slots = Box::into_raw(table).cast::<Bucket>();
        tables.all.push((slots, len));
        self.slots.store(slots, Ordering::Release);
        self.mask.store(len - 1, Ordering::Release);
    }

    /// Returns the key and the pointer of `address`. `None` may be wrong while another thread makes the table larger.
    #[inline(always)]
    pub fn find(&self, address: usize) -> Option<Found> {
        let mask = self.mask.load(Ordering::Acquire);
        let slots = self.slots.load(Ordering::Acquire);
        let mut at = hash(address);
        loop {
            // SAFETY: the table has `mask + 1` slots at least and lives (invariant 2).
            let slot = unsafe { &*slots.add(at & mask) };
            let word = slot.word.load(Ordering::Acquire);
            let tag = word ^ address as u64;
            if tag << (u64::BITS - KEY_SHIFT) == 0 {
                return Some(Found { tag, value: slot.value.load(Ordering::Relaxed) });
            }
            if word == 0 {
                return None;
            }
            at += 1;
        }
    }

    /// Adds an address that leaves room for a key, unless it is there.
    pub fn add(&self, address: usize, key: Key, value: *mut ()) {
        assert!(leaves_room_for_a_key(address) && (key as usize) < MAX_KEYS, "checked when the key was made");
        let tables = &mut *self.tables.lock();
        if self.find(address).is_some() {
            return;
        }
        tables.filled += 1;
        if 2 * tables.filled > self.slots_in_use(tables).len() {
            let old = self.slots_in_use(tables);
            self.start_table(tables, 2 * old.len(), old);
        }
        fill(self.slots_in_use(tables), u64::from(key) << KEY_SHIFT | address as u64, value);
    }

    /// Returns the table in use, which lives as long as the map (invariant 2).
    fn slots_in_use(&self, tables: &Tables) -> &[Bucket] {
        let (slots, len) = tables.all[tables.all.len() - 1];
        // SAFETY: the table has `len` slots and lives (invariant 2).
        unsafe { std::slice::from_raw_parts(slots, len) }
    }

    /// Removes all addresses. A `find` that runs at the same time may still find them.
    pub fn clear(&self) {
        let tables = &mut *self.tables.lock();
        tables.filled = 0;
        let len = self.slots_in_use(tables).len(); // no smaller, because of invariant 2
        self.start_table(tables, len, &[]);
    }
}

fn fill(table: &[Bucket], word: u64, value: *mut ()) {
    let address = word as usize & ((1 << KEY_SHIFT) - 1);
    let slots = (hash(address)..).map(|at| &table[at & (table.len() - 1)]);
    let mut empty = slots.filter(|slot| slot.word.load(Ordering::Relaxed) == 0);
    let slot = empty.next().expect("half of the slots are empty");
    slot.value.store(value, Ordering::Relaxed);
    slot.word.store(word, Ordering::Release);
}

#[inline(always)]
fn hash(address: usize) -> usize {
    (address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40
}

impl Drop for AddressMap {
    fn drop(&mut self) {
        let tables = std::mem::take(&mut self.tables.lock().all);
        for (slots, len) in tables {
            // SAFETY: the table was a box of this length, and because of `&mut self` no thread reads it.
            drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(slots, len)) });
        }
    }
}
