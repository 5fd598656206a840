//! A FIFO that refuses entries it knows: order and identity of the entries in one structure.
//!
//! A queue with a separate set has moments in which the two disagree, and an offer at such a moment is lost or doubled.
//! Here one slot holds an entry from its arrival until it is forgotten; only the state of the slot changes.
//!
//! The structure never compares two entries by itself: the caller of [`SetQueue::find`] passes the comparison, which
//! returns [`Same::Unsure`] if it would run foreign code under the caller's lock. It never reads a clock either: `now`
//! is an argument.
//!
//! # Invariants
//! 1. `table` holds the index of each occupied slot exactly once, with and under the slot's hash.
//! 2. A slot is occupied if and only if its `entry` is `Some`. The index of every other slot is in `free`.
//! 3. An occupied slot's index is in `waiting` once if its state is `Waiting`, and in `remembered` once if its state is
//!    `Remembered`; else it is in neither.
//! 4. `remembered` is in the order in which its entries may be forgotten.
//!
//! Source: `ConcurrentSetQueue` of "Fast Critical Path with Async Queueing"; the life after the queue follows
//! `processing` and `dirty` of client-go's work queue.

use crate::sync::planted;
use hashbrown::HashTable;
use std::collections::VecDeque;
use std::time::Duration;

/// The fate of an entry's identity when the entry is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterTake {
    /// The entry is forgotten at once: an equal entry may enter.
    Forget,
    /// The entry stays known until [`SetQueue::done`], and this long after it.
    Track(Duration),
    /// The entry stays known this long.
    Remember(Duration),
}

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

/// Whether a known entry is the entry that [`SetQueue::find`] looks up.
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

/// The result of [`SetQueue::find`].
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup<'a, E> {
    /// No known entry is the same.
    Absent,
    /// The number and the state of the known entry. The number is valid until the next change of the queue.
    Known(EntryId, EntryState),
    /// The comparison returned [`Same::Unsure`] for this entry, and no other is the same.
    Unsure(&'a E),
}

/// The number of a known entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryId(u32);

/// A running request to the source; see [`SetQueue::begin_poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Poll(pub u64);

struct EntrySlot<E> {
    entry: Option<E>,
    hash: u32,
    state: EntryState,
}

/// The slot of an entry, with the entry's hash, so that a search or a growing table reads only the slots of that hash.
#[derive(Clone, Copy)]
struct Indexed {
    slot: u32,
    hash: u32,
}

struct Remembered {
    slot: u32,
    until: Duration,
    /// The youngest poll that had begun when the entry was done.
    poll: u64,
}

/// A FIFO of entries in which an equal one can be looked up.
///
/// ```
/// use drainq_core::sources::set_queue::{AfterTake, Lookup, Same, SetQueue};
/// use std::time::Duration;
///
/// let mut queue = SetQueue::new(AfterTake::Forget);
/// for word in ["a", "b", "a"] {
///     let hash = u64::from(word.as_bytes()[0]);
///     if let Lookup::Absent = queue.find(hash, |known| Same::from(*known == word)) {
///         queue.push(hash, word);
///     }
/// }
/// assert_eq!(queue.len(), 2);
/// assert_eq!(queue.take(Duration::ZERO, |known| *known, |taken| taken), Some("a"));
/// ```
pub struct SetQueue<E> {
    after_take: AfterTake,
    table: HashTable<Indexed>,
    slots: Vec<EntrySlot<E>>,
    free: Vec<u32>,
    waiting: VecDeque<u32>,
    remembered: VecDeque<Remembered>,
    in_flight: usize,
    polls: Vec<u64>,
    last_poll: u64,
}

/// Low bits of a hash that positions in the table keep, so that neighbours stay neighbours.
const RUN_BITS: u32 = 3;

/// The most slots that an empty queue keeps. A larger table is freed.
const KEPT_SLOTS: usize = 4096;

impl<E> SetQueue<E> {
    /// Makes an empty queue.
    pub fn new(after_take: AfterTake) -> Self {
        Self {
            after_take,
            table: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            remembered: VecDeque::new(),
            in_flight: 0,
            polls: Vec::new(),
            last_poll: 0,
        }
    }

    /// Returns the number of entries in the queue.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no entry is in the queue.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the number of entries taken and not yet done.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Returns the entries in the queue, first to last.
    pub fn iter(&self) -> impl Iterator<Item = &E> {
        self.waiting.iter().filter_map(|&slot| self.slots[slot as usize].entry.as_ref())
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

    /// Reserves the memory for one entry; false if there is none.
    #[inline]
    pub fn reserve(&mut self) -> bool {
        (!self.free.is_empty() || self.slots.try_reserve(1).is_ok())
            && self.table.try_reserve(1, |indexed| spread(indexed.hash)).is_ok()
            && self.waiting.try_reserve(1).is_ok()
    }

    /// Appends an entry for which [`find`](Self::find) just returned [`Lookup::Absent`].
    #[inline]
    pub fn push(&mut self, hash: u64, entry: E) {
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
        self.waiting.push_back(slot);
    }

    /// Takes the first entry: calls `give` with the entry if it is forgotten at once, else `lend` with a reference
    /// while it stays known.
    #[inline]
    pub fn take<R>(&mut self, now: Duration, lend: impl FnOnce(&mut E) -> R, give: impl FnOnce(E) -> R) -> Option<R> {
        let index = self.waiting.pop_front()?;
        let after = match self.after_take {
            AfterTake::Forget => return self.forget(index).map(give),
            AfterTake::Track(_) => EntryState::InFlight,
            AfterTake::Remember(_) => EntryState::Remembered,
        };
        let slot = &mut self.slots[index as usize];
        slot.state = after;
        let taken = slot.entry.as_mut().map(lend);
        match self.after_take {
            AfterTake::Remember(ttl) => self.remember(index, now.saturating_add(ttl), 0),
            _ => self.in_flight += 1,
        }
        taken
    }

    /// Marks an entry in flight as done.
    ///
    /// The entry is forgotten at once, unless it must be remembered for a while or a running poll may still bring it
    /// back. Returns the entry if it was forgotten; `Err` if it was not in flight.
    pub fn done(&mut self, id: EntryId, now: Duration) -> Result<Option<E>, EntryState> {
        let slot = &mut self.slots[id.0 as usize];
        if slot.state != EntryState::InFlight || slot.entry.is_none() {
            return Err(slot.state);
        }
        self.in_flight -= 1;
        let ttl = if let AfterTake::Track(ttl) = self.after_take { ttl } else { Duration::ZERO };
        if ttl.is_zero() && (self.polls.is_empty() || planted("set_queue_fence")) {
            return Ok(self.forget(id.0));
        }
        slot.state = EntryState::Remembered;
        self.remember(id.0, now.saturating_add(ttl), self.last_poll);
        Ok(None)
    }

    /// Begins a poll of the source. Its result may hold entries that were read before they were done, so entries that
    /// are done from now until its end stay known until then.
    pub fn begin_poll(&mut self) -> Poll {
        self.last_poll += 1;
        self.polls.push(self.last_poll);
        Poll(self.last_poll)
    }

    /// Ends a poll. Returns false if it is not under way.
    pub fn end_poll(&mut self, poll: Poll) -> bool {
        let before = self.polls.len();
        self.polls.retain(|&begun| begun != poll.0);
        self.polls.len() < before
    }

    /// Whether [`forget_due`](Self::forget_due) can have anything to do.
    #[inline]
    pub fn remembers(&self) -> bool {
        !self.remembered.is_empty()
    }

    /// Moves entries whose time is up to `forgotten`.
    pub fn forget_due(&mut self, now: Duration, forgotten: &mut Vec<E>) {
        let oldest_poll = self.polls.iter().copied().min().unwrap_or(u64::MAX);
        while let Some(first) = self.remembered.front() {
            if first.until > now || oldest_poll <= first.poll {
                return;
            }
            let index = first.slot;
            self.remembered.pop_front();
            forgotten.extend(self.forget(index));
        }
    }

    /// Takes every entry out of the queue and forgets it; entries in flight stay known.
    pub fn clear(&mut self) -> Vec<E> {
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_iter().filter_map(|index| self.forget(index)).collect()
    }

    /// Forgets everything, in the queue or not, and ends every poll.
    pub fn reset(&mut self) -> Vec<E> {
        let last_poll = self.last_poll;
        let slots = std::mem::replace(self, Self::new(self.after_take)).slots;
        if !planted("set_queue_polls") {
            self.last_poll = last_poll;
        }
        slots.into_iter().filter_map(|slot| slot.entry).collect()
    }

    fn remember(&mut self, slot: u32, until: Duration, poll: u64) {
        self.remembered.push_back(Remembered { slot, until, poll });
    }

    #[inline]
    fn forget(&mut self, index: u32) -> Option<E> {
        let slot = &mut self.slots[index as usize];
        let entry = slot.entry.take();
        if let Ok(found) = self.table.find_entry(spread(slot.hash), |indexed| indexed.slot == index) {
            found.remove();
        }
        if self.table.is_empty() && self.slots.len() > KEPT_SLOTS {
            self.slots = Vec::new();
            self.free = Vec::new();
            self.table = HashTable::new();
            self.waiting = VecDeque::new();
            self.remembered = VecDeque::new();
        } else {
            self.free.push(index);
        }
        entry
    }
}

/// Folds a hash into 32 bits: keeps the low bits, and makes the others from all of the rest.
///
/// Python hashes an int to itself, and ids often come in runs. So runs of 2^[`RUN_BITS`] share a cache line of the
/// table, in the order of their takes. Ids at a stride of a power of two still spread, unlike with the bare hash.
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

#[cfg(all(test, not(loom), not(drainq_shuttle)))]
mod agreement;
#[cfg(test)]
mod tests;
