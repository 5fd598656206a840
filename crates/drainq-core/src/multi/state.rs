//! The state that the lock of a multi-queue guards. The operations on it are also in `put.rs`, `take.rs`,
//! `bulk_get.rs`, `notify.rs`, `settings.rs`, `stats.rs` and `fork_restart.rs`.
//!
//! # Invariants
//! 1. `servable` is the number of items in attached, enabled sub-queues, `full` the number of those sub-queues that
//!    have items and no room, and the ready positions of the selection are exactly the sub-queues that hold these
//!    items. [`MultiState::count_servable`] and its inverse, and each push and pop, keep these numbers up to date.
//! 2. `depth` is the number of items in attached sub-queues, held ones included.
//! 3. `totals.put == totals.got + totals.removed + depth`.
//! 4. Under the lock runs no code of the caller but the closures of `peek`, `read`, `remove` and `read_stats`. Items,
//!    labels and wakers are moved, never dropped: an operation returns them, and its caller drops them later.
//! 5. `attached` holds the slots of the attached sub-queues, `free` the vacant slots. The last slot is never vacant,
//!    so a queue that lost most of its sub-queues gives their memory back.

use super::bitmap::Bitmap;
use super::round_robin_selection::{Order, Selection, Slot};
use super::sub_queue::Held;
use super::sub_queue::{Counters, Membership, Sub};
use super::waiters::Wakes;
use crate::sync::planted;
use crate::wait::tickets::{Ticket, Tickets};
use std::collections::{BTreeMap, VecDeque};

/// The fate of the items that are left at a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    /// Getters still get them.
    Serve,
    /// They are taken out and counted as removed.
    Discard,
}

/// The settings of a new sub-queue.
#[derive(Clone, Copy, Debug)]
pub struct SubQueueSettings {
    /// The priority. A lower number is served first.
    pub priority: i64,
    /// The most items; `usize::MAX` is unbounded.
    pub capacity: usize,
    /// The number of turns in a row.
    pub weight: u32,
}

pub(super) struct MultiState<T, L> {
    pub subs: Vec<Option<Sub<T, L>>>,
    free: Bitmap,
    pub attached: Bitmap,
    ids: u64,
    pub selection: Selection,
    pub getters: Tickets,
    pub joiners: Tickets,
    /// The items that waiting getters hold (`bulk_get.rs`), by the ticket of the getter.
    pub held: BTreeMap<Ticket, Vec<Held<T>>>,
    pub servable: usize,
    pub full: usize,
    pub depth: usize,
    pub totals: Counters,
    /// How many of the items that getters took are done.
    pub done: u64,
    pub is_shut_down: bool,
    /// Whether the shutdown discards items, also those that a getter holds.
    pub discards: bool,
    /// Whether the multi-queue was dropped, so that there are no getters.
    pub is_orphaned: bool,
}

impl<T, L> MultiState<T, L> {
    pub fn new(order: Order) -> Self {
        Self {
            subs: Vec::new(),
            free: Bitmap::default(),
            attached: Bitmap::default(),
            ids: 0,
            selection: Selection::new(order),
            getters: Tickets::default(),
            joiners: Tickets::default(),
            held: BTreeMap::new(),
            servable: 0,
            full: 0,
            depth: 0,
            totals: Counters::default(),
            done: 0,
            is_shut_down: false,
            discards: false,
            is_orphaned: false,
        }
    }

    /// Returns how many items wait, are held, or were taken and are not done.
    #[inline]
    pub fn unfinished(&self) -> u64 {
        self.depth as u64 + self.totals.got - self.done
    }

    /// Counts one taken item as done; returns false if all taken items are done already.
    pub fn task_done(&mut self) -> bool {
        let is_one = self.done < self.totals.got;
        self.done += u64::from(is_one);
        is_one
    }

    /// Returns a ticket that was never given out before.
    pub fn next_ticket(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    #[inline]
    pub fn sub(&self, slot: Slot) -> &Sub<T, L> {
        self.subs[slot].as_ref().expect("a slot lives as long as its handle")
    }

    #[inline]
    pub fn sub_mut(&mut self, slot: Slot) -> &mut Sub<T, L> {
        self.subs[slot].as_mut().expect("a slot lives as long as its handle")
    }

    /// Adds a sub-queue; returns the label if the queue was shut down.
    pub fn add(&mut self, label: L, settings: SubQueueSettings, disabled_by: Option<String>) -> Result<Slot, L> {
        if self.is_shut_down {
            return Err(label);
        }
        let sub = Sub {
            label,
            items: Default::default(),
            held: 0,
            priority: settings.priority,
            weight: settings.weight,
            capacity: settings.capacity,
            membership: Membership::Attached,
            disabled_by: disabled_by.into_iter().collect(),
            counters: Counters::default(),
            putters: Tickets::default(),
        };
        let reused = self.free.next(0).filter(|_| !planted("multi_slots"));
        let slot = reused.unwrap_or(self.subs.len());
        if slot == self.subs.len() {
            self.subs.push(Some(sub));
        } else {
            self.free.remove(slot);
            self.subs[slot] = Some(sub);
        }
        self.attached.insert(slot);
        self.selection.insert(slot, settings.priority, settings.weight);
        Ok(slot)
    }

    /// Removes a sub-queue for good. Its items stay in it. Returns false if it was removed before.
    pub fn retire(&mut self, slot: Slot, wakes: &mut Wakes) -> bool {
        if self.sub(slot).membership == Membership::Removed {
            return false;
        }
        self.reclaim(slot);
        self.uncount_servable(slot);
        self.selection.remove(slot);
        self.attached.remove(slot);
        let sub = self.sub_mut(slot);
        sub.membership = Membership::Removed;
        let left = sub.items.len();
        self.depth -= left;
        self.totals.removed += left as u64;
        self.notify_putters(slot, wakes);
        true
    }

    /// Frees the slot of a removed sub-queue; returns the sub-queue.
    pub fn release(&mut self, slot: Slot) -> Option<Sub<T, L>> {
        let sub = self.subs[slot].take();
        self.free.insert(slot);
        while let Some(None) = self.subs.last() {
            self.subs.pop();
            self.free.remove(self.subs.len());
        }
        if self.subs.len() < self.subs.capacity() / 4 {
            self.subs.shrink_to(self.subs.len() * 2);
        }
        sub
    }

    /// Adds a sub-queue to the counters of invariant 1, if it can be served. Call this as the last step of a change.
    pub fn count_servable(&mut self, slot: Slot) {
        let sub = self.sub(slot);
        if sub.is_servable() {
            let (items, is_full) = (sub.items.len(), sub.room() == 0);
            self.servable += items;
            self.full += usize::from(is_full);
            self.selection.set_ready(slot, true);
        }
    }

    /// Takes a sub-queue out of the counters of invariant 1. Call this as the first step of a change.
    pub fn uncount_servable(&mut self, slot: Slot) {
        let sub = self.sub(slot);
        if sub.is_servable() {
            let (items, is_full) = (sub.items.len(), sub.room() == 0);
            self.servable -= items;
            self.full -= usize::from(is_full);
            self.selection.set_ready(slot, false);
        }
    }

    /// Does the same as [`MultiState::uncount_servable`], for a slot that may be vacant.
    pub fn uncount_servable_if_any(&mut self, slot: Slot) {
        if self.subs[slot].is_some() {
            self.uncount_servable(slot);
        }
    }

    /// Whether a full sub-queue blocks its producers until a getter takes an item.
    pub fn is_stuck(&self) -> bool {
        self.full > 0
    }

    /// Sets the counters of the multi-queue to zero.
    pub fn forget_counts(&mut self) {
        self.totals = Counters::default();
        (self.depth, self.done) = (0, 0);
    }

    /// Takes every item out of a sub-queue.
    pub fn clear(&mut self, slot: Slot, wakes: &mut Wakes) -> Vec<T> {
        self.uncount_servable(slot);
        let sub = self.sub_mut(slot);
        let items = sub.drain();
        if sub.membership == Membership::Attached {
            self.depth -= items.len();
            self.totals.removed += items.len() as u64;
        }
        self.notify_putters(slot, wakes);
        items
    }

    /// Takes out the items for which `is_one` returns true, in one pass.
    pub fn remove(&mut self, slot: Slot, mut is_one: impl FnMut(&T) -> bool, wakes: &mut Wakes) -> Vec<T> {
        self.uncount_servable(slot);
        let sub = self.sub_mut(slot);
        let is_attached = sub.membership == Membership::Attached;
        let (mut taken, mut kept) = (Vec::new(), VecDeque::new());
        if let Some(first) = sub.items.iter().position(|entry| is_one(&entry.item)) {
            // The items before the first match stay where they are; `is_one` is called once for each item.
            let rest = sub.items.split_off(first);
            let mut is_first = true;
            for entry in rest {
                if std::mem::take(&mut is_first) || is_one(&entry.item) {
                    taken.push(entry.item);
                } else {
                    kept.push_back(entry);
                }
            }
            sub.items.append(&mut kept);
        }
        sub.counters.removed += taken.len() as u64;
        if is_attached {
            self.depth -= taken.len();
            self.totals.removed += taken.len() as u64;
        }
        self.count_servable(slot);
        self.notify_putters(slot, wakes);
        taken
    }

    /// Refuses items from now on and notifies all waiters; returns the items that the mode discards.
    pub fn shut_down(&mut self, mode: ShutdownMode, wakes: &mut Wakes) -> Vec<T> {
        self.is_shut_down = true;
        self.discards |= mode == ShutdownMode::Discard;
        let mut discarded = Vec::new();
        for slot in self.attached.iter().collect::<Vec<_>>() {
            if self.discards {
                discarded.append(&mut self.clear(slot, wakes));
            }
            self.notify_putters(slot, wakes);
        }
        discarded
    }

    /// Marks the multi-queue as dropped and notifies its putters, because no getter will make room.
    pub fn orphan(&mut self, wakes: &mut Wakes) {
        self.is_orphaned = true;
        for slot in self.attached.iter().collect::<Vec<_>>() {
            self.notify_putters(slot, wakes);
        }
    }
}
