//! The table that finds a group by the hash of its keys.
//!
//! A slot is 8 bytes: the number of a group, and half of its hash, by which a lookup passes over most other groups. What
//! a lookup finds so may still have other keys, which the caller has to compare.
//!
//! # Invariants
//! 1. `slots` has a power of two of places and at least one that is free. A group lies at the place of its hash or, where
//!    that was taken, at the next free place: a lookup ends at the first free place.
//! 2. `hashes` has the hash of each group. So `slots` can be made from it again, for more room or without some groups.

use crate::columns::reserve::reserve;

/// Slots of an empty table.
const FEWEST: usize = 64;
/// Up to this number of slots, three of four are free: most look-ups end at their first slot, and all slots fit in a near cache.
const SPARSE: usize = 1 << 15;
/// A slot without a group; groups are counted from 1 in a slot.
const FREE: u64 = 0;

/// The hashes of all groups.
#[derive(Clone)]
pub struct GroupTable {
    slots: Vec<u64>,
    hashes: Vec<u64>,
}

impl Default for GroupTable {
    fn default() -> Self {
        Self { slots: vec![FREE; FEWEST], hashes: Vec::new() }
    }
}

impl GroupTable {
    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Reads the slot at which a lookup begins.
    ///
    /// To read those of many hashes before the first look-up lets the processor wait for their memory at the same time.
    #[inline]
    pub fn first_slot(&self, hash: u64) -> u64 {
        self.slots[self.place_of(hash)]
    }

    /// The group in a slot, if half of its hash is half of this one.
    #[inline]
    pub fn group_in(slot: u64, hash: u64) -> Option<u32> {
        (slot != FREE && slot >> 32 == hash >> 32).then(|| (slot as u32) - 1)
    }

    /// Finds a group of this hash that `is_it` confirms.
    #[inline]
    pub fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut place = self.place_of(hash);
        loop {
            let slot = self.slots[place];
            if slot == FREE {
                return None;
            }
            if let Some(group) = Self::group_in(slot, hash)
                && is_it(group)
            {
                return Some(group);
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
    }

    /// Adds the group whose number is the length, which is below [`u32::MAX`].
    #[inline]
    pub fn push(&mut self, hash: u64) {
        reserve(&mut self.hashes, 1);
        self.hashes.push(hash);
        let slots = self.slots.len();
        let most = if slots <= SPARSE { slots / 4 } else { slots / 8 * 5 };
        if self.hashes.len() > most {
            self.rebuild(slots * 2);
        } else {
            self.enter(hash, self.hashes.len() as u64);
        }
    }

    /// Forgets all groups from `groups` on.
    pub fn truncate(&mut self, groups: usize) {
        self.hashes.truncate(groups);
        self.rebuild(self.slots.len());
    }

    fn rebuild(&mut self, slots: usize) {
        self.slots = vec![FREE; slots];
        for group in 0..self.hashes.len() {
            self.enter(self.hashes[group], group as u64 + 1);
        }
    }

    #[inline]
    fn enter(&mut self, hash: u64, from_one: u64) {
        let mut place = self.place_of(hash);
        while self.slots[place] != FREE {
            place = (place + 1) & (self.slots.len() - 1);
        }
        self.slots[place] = (hash >> 32 << 32) | from_one;
    }

    #[inline]
    fn place_of(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }
}
