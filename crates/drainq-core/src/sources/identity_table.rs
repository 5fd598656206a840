//! Looks entries up by their identity. The set queue and a sub-queue without duplicates share this table.
//!
//! The table never compares two entries by itself: the caller of [`IdentityTable::find`] passes the comparison, which
//! returns [`Same::Unsure`] if it would run foreign code under the caller's lock.
//!
//! # Invariants
//! 1. `table` holds the index of each occupied slot exactly once, with and under the slot's hash.
//! 2. A slot is occupied if and only if its `entry` is `Some`. The index of every other slot is in `free`.

use crate::sync::planted;
use hashbrown::HashTable;

/// The state of a known entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// In the queue.
    Waiting,
    /// Taken, and not yet done.
    InFlight,
    /// Taken or done, and still refused.
    Remembered,
}

/// Whether a known entry is the entry that [`IdentityTable::find`] looks up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Same {
    /// The known entry is the same.
    Yes,
    /// The known entry is another.
    No,
    /// The comparison cannot tell without the code of the entry's owner.
    Unsure,
}

impl From<bool> for Same {
    fn from(is_same: bool) -> Self {
        if is_same { Self::Yes } else { Self::No }
    }
}

/// The result of [`IdentityTable::find`].
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup<'a, E> {
    /// No known entry is the same.
    Absent,
    /// The number and the state of the known entry. The number is valid until the entry is forgotten.
    Known(EntryId, EntryState),
    /// The comparison returned [`Same::Unsure`] for this entry, and no other is the same.
    Unsure(&'a E),
}

/// The number of a known entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryId(pub u32);

pub(super) struct EntrySlot<E> {
    pub(super) entry: Option<E>,
    hash: u32,
    pub(super) state: EntryState,
}

/// The slot of an entry, with the entry's hash: a search reads only the slots of one hash, a growing table none.
#[derive(Clone, Copy)]
struct Indexed {
    slot: u32,
    hash: u32,
}

/// Entries by identity.
pub struct IdentityTable<E> {
    table: HashTable<Indexed>,
    pub(super) slots: Vec<EntrySlot<E>>,
    free: Vec<u32>,
}

impl<E> Default for IdentityTable<E> {
    fn default() -> Self {
        Self { table: HashTable::new(), slots: Vec::new(), free: Vec::new() }
    }
}

/// The number of low bits of a hash that its position in the table keeps, so that neighbours stay neighbours.
const RUN_BITS: u32 = 3;

/// The most slots that an empty queue keeps. A larger table is freed.
const KEPT_SLOTS: usize = 4096;

impl<E> IdentityTable<E> {
    /// Whether no entry is known.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Returns every known entry, in the queue or not, in no order.
    pub fn known(&self) -> impl Iterator<Item = &E> {
        self.slots.iter().filter_map(|slot| slot.entry.as_ref())
    }

    /// Finds a known entry with this hash for which `same` returns [`Same::Yes`].
    #[inline]
    pub fn find(&self, hash: u64, mut same: impl FnMut(&E) -> Same) -> Lookup<'_, E> {
        let hash = fold(hash);
        let mut unsure = None;
        let found = self.table.find(spread(hash), |indexed| {
            if indexed.hash != hash {
                return false;
            }
            let Some(entry) = &self.slots[indexed.slot as usize].entry else { return false };
            let answer = same(entry);
            if answer == Same::Unsure {
                unsure = Some(entry);
            }
            answer == Same::Yes
        });
        match (found, unsure) {
            (Some(&Indexed { slot, .. }), _) => Lookup::Known(EntryId(slot), self.slots[slot as usize].state),
            (None, Some(entry)) => Lookup::Unsure(entry),
            (None, None) => Lookup::Absent,
        }
    }

    /// Reserves the memory for one entry; false if there is no memory.
    #[inline]
    pub fn reserve(&mut self) -> bool {
        (!self.free.is_empty() || self.slots.try_reserve(1).is_ok())
            && self.table.try_reserve(1, |indexed| spread(indexed.hash)).is_ok()
    }

    /// Inserts an entry as [`EntryState::Waiting`]. [`find`](Self::find) has just returned [`Lookup::Absent`] for it.
    #[inline]
    pub fn insert(&mut self, hash: u64, entry: E) -> EntryId {
        let hash = fold(hash);
        let filled = EntrySlot { entry: Some(entry), hash, state: EntryState::Waiting };
        let slot = match self.free.pop().filter(|_| !planted("set_queue_slots")) {
            Some(slot) => {
                self.slots[slot as usize] = filled;
                slot
            }
            None => {
                let slot = u32::try_from(self.slots.len()).expect("fewer than 2^32 entries");
                self.slots.push(filled);
                slot
            }
        };
        self.table.insert_unique(spread(hash), Indexed { slot, hash }, |indexed| spread(indexed.hash));
        EntryId(slot)
    }

    /// Takes an entry out; `None` if it is not known. A table that a burst made large is freed with its last entry.
    #[inline]
    pub fn forget(&mut self, id: EntryId) -> Option<E> {
        let slot = &mut self.slots[id.0 as usize];
        let entry = slot.entry.take()?;
        if let Ok(found) = self.table.find_entry(spread(slot.hash), |indexed| indexed.slot == id.0) {
            found.remove();
        }
        if self.table.is_empty() && self.slots.len() > KEPT_SLOTS {
            *self = Self::default();
        } else {
            self.free.push(id.0);
        }
        Some(entry)
    }
}

/// Folds a hash into 32 bits: keeps the low [`RUN_BITS`] bits, and mixes the rest into the others.
///
/// Python hashes an int to itself, and ids often come in runs. So 2^[`RUN_BITS`] ids in a row share a cache line
/// of the table, in their order. Ids at a stride of a power of two still spread, unlike with the bare hash.
#[inline]
fn fold(hash: u64) -> u32 {
    let wide = u128::from((hash >> RUN_BITS) ^ 0x2545_F491_4F6C_DD1D) * 0x9E37_79B9_7F4A_7C15_u128;
    let mixed = (wide as u64 ^ (wide >> 64) as u64) as u32;
    mixed << RUN_BITS | (hash as u32 & ((1 << RUN_BITS) - 1))
}

/// Spreads a folded hash over 64 bits: the table takes the position from the low ones, a tag from the high ones.
#[inline]
fn spread(hash: u32) -> u64 {
    u64::from(hash) | u64::from(hash.wrapping_mul(0x9E37_79B1)) << 32
}
