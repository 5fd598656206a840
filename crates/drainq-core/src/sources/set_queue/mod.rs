//! A FIFO that refuses entries it knows: order and identity of the entries in one structure.
//!
//! A queue with a separate set has moments in which the two disagree, and an offer at such a moment is lost or doubled.
//! Here one slot holds an entry from its arrival until it is forgotten; only the state of the slot changes.
//!
//! The queue looks entries up in its [`IdentityTable`], and never reads a clock: `now` is an argument.
//!
//! # Invariants
//! 1. The index of a known entry is in `waiting` once if its state is `Waiting`, and in `remembered` once if its state
//!    is `Remembered`; else it is in neither.
//! 2. `remembered` is in the order in which its entries may be forgotten.
//!
//! Source: `ConcurrentSetQueue` of "Fast Critical Path with Async Queueing"; the states after a take follow
//! `processing` and `dirty` of client-go's work queue.

pub use super::identity_table::{EntryId, EntryState, IdentityTable, Lookup, Same};
use crate::sync::planted;
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

/// A running request to the source; see [`SetQueue::begin_poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Poll(pub u64);

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
///     if let Lookup::Absent = queue.table().find(hash, |known| Same::from(*known == word)) {
///         queue.push(hash, word);
///     }
/// }
/// assert_eq!(queue.len(), 2);
/// assert_eq!(queue.take(Duration::ZERO, |known| *known, |taken| taken), Some("a"));
/// ```
pub struct SetQueue<E> {
    after_take: AfterTake,
    table: IdentityTable<E>,
    waiting: VecDeque<u32>,
    remembered: VecDeque<Remembered>,
    in_flight: usize,
    polls: Vec<u64>,
    last_poll: u64,
}

impl<E> SetQueue<E> {
    /// Makes an empty queue.
    pub fn new(after_take: AfterTake) -> Self {
        Self {
            after_take,
            table: IdentityTable::default(),
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
        self.waiting.iter().filter_map(|&slot| self.table.slots[slot as usize].entry.as_ref())
    }

    /// Returns the table of every known entry, in the queue or not.
    #[inline]
    pub fn table(&self) -> &IdentityTable<E> {
        &self.table
    }

    /// Reserves the memory for one entry; false if there is no memory.
    #[inline]
    pub fn reserve(&mut self) -> bool {
        self.table.reserve() && self.waiting.try_reserve(1).is_ok()
    }

    /// Appends an entry for which [`IdentityTable::find`] just returned [`Lookup::Absent`].
    #[inline]
    pub fn push(&mut self, hash: u64, entry: E) {
        let EntryId(slot) = self.table.insert(hash, entry);
        self.waiting.push_back(slot);
    }

    /// Takes the first entry. Calls `give` with the entry if it is forgotten at once, or `lend` with a reference to the
    /// entry if it stays known.
    #[inline]
    pub fn take<R>(&mut self, now: Duration, lend: impl FnOnce(&mut E) -> R, give: impl FnOnce(E) -> R) -> Option<R> {
        let index = self.waiting.pop_front()?;
        let after = match self.after_take {
            AfterTake::Forget => return self.forget(index).map(give),
            AfterTake::Track(_) => EntryState::InFlight,
            AfterTake::Remember(_) => EntryState::Remembered,
        };
        let slot = &mut self.table.slots[index as usize];
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
        let slot = &mut self.table.slots[id.0 as usize];
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

    /// Begins a poll of the source. The poll may return entries that the source read before they were done. So an entry
    /// that is done during the poll stays known until the poll ends.
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

    /// Forgets the entries whose time and polls are over, and moves them to `forgotten`.
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
        let slots = std::mem::replace(self, Self::new(self.after_take)).table.slots;
        if !planted("set_queue_polls") {
            self.last_poll = last_poll;
        }
        slots.into_iter().filter_map(|slot| slot.entry).collect()
    }

    #[inline]
    fn forget(&mut self, index: u32) -> Option<E> {
        let entry = self.table.forget(EntryId(index));
        if self.table.slots.is_empty() {
            self.waiting = VecDeque::new();
            self.remembered = VecDeque::new();
        }
        entry
    }

    fn remember(&mut self, slot: u32, until: Duration, poll: u64) {
        self.remembered.push_back(Remembered { slot, until, poll });
    }
}

#[cfg(test)]
mod tests;
