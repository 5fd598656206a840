//! One sub-queue: its items, limits, counters and waiting putters.
//!
//! All of it is read and changed under the multi-queue's one lock.
//!
//! # Invariants
//! 1. `put == got + removed + items.len() + held` whenever the lock is free.
//! 2. `items.len() <= capacity` unless the capacity was lowered, or an interrupted `get_many` gave items back.

use super::round_robin_selection::Slot;
use crate::wait::tickets::Tickets;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// The memory that an empty sub-queue keeps, in items.
const KEPT: usize = 4096;

/// Counters of items since the sub-queue was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Items accepted.
    pub put: u64,
    /// Items handed to getters.
    pub got: u64,
    /// Items refused: no room (in time), shut down, or removed.
    pub rejected: u64,
    /// Items left out because an equal one waited.
    pub duplicates: u64,
    /// Items taken out without a get: `clear`, `remove`, a removed sub-queue, an immediate shutdown.
    pub removed: u64,
    /// The largest depth so far.
    pub high_water: usize,
}

/// Whether a sub-queue still belongs to its multi-queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// The sub-queue accepts items, and getters get them.
    Attached,
    /// The sub-queue was removed: its items can still be read, and no call changes the multi-queue through it.
    Removed,
}

/// An item and the time of its arrival, in nanoseconds on the queue's clock.
pub(super) struct QueuedItem<T> {
    pub item: T,
    pub at: u64,
}

/// An item that a bulk get has taken and may give back, with the slot of its sub-queue.
pub(super) struct Held<T> {
    pub slot: Slot,
    pub entry: QueuedItem<T>,
}

pub(super) struct Sub<T, L> {
    pub label: L,
    pub items: VecDeque<QueuedItem<T>>,
    /// Items that a getter holds while it waits for more. They may come back.
    pub held: usize,
    pub priority: i64,
    pub weight: u32,
    /// `usize::MAX` when unbounded.
    pub capacity: usize,
    pub membership: Membership,
    pub disabled_by: BTreeSet<String>,
    pub counters: Counters,
    pub putters: Tickets,
}

impl<T, L> Sub<T, L> {
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.disabled_by.is_empty()
    }

    /// Whether a getter may be served from here.
    #[inline]
    pub fn is_servable(&self) -> bool {
        !self.items.is_empty() && self.is_enabled() && self.membership == Membership::Attached
    }

    /// Returns how many more items fit.
    #[inline]
    pub fn room(&self) -> usize {
        self.capacity.saturating_sub(self.items.len())
    }

    /// Frees the memory of an empty buffer that a burst made large.
    #[inline]
    pub fn give_memory_back(&mut self) {
        if self.items.capacity() > KEPT {
            self.items = VecDeque::new();
        }
    }

    /// Takes every item out.
    pub fn drain(&mut self) -> Vec<T> {
        self.counters.removed += self.items.len() as u64;
        std::mem::take(&mut self.items).into_iter().map(|entry| entry.item).collect()
    }
}

/// A snapshot of one sub-queue's counters, or of all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Items waiting now, those that a waiting `get_many` holds included.
    pub depth: usize,
    /// See [`Counters`].
    pub counters: Counters,
    /// The age of the oldest waiting item.
    pub oldest_age: Option<Duration>,
    /// Putters that wait for room now.
    pub blocked_putters: usize,
}
