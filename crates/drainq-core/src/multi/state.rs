//! Everything under the multi-queue's one lock, and what each operation does to it.
//!
//! # Invariants
//! 1. `servable` is the number of items in attached, enabled sub-queues, `full` the number of those
//!    sub-queues that have items and no room, and the selector's ready seats are exactly the
//!    sub-queues that hold these items. All are kept by [`MultiState::count_servable`] and its inverse
//!    [`MultiState::uncount_servable`], or by one push or pop.
//! 2. `depth` is the number of items in attached sub-queues, held ones included.
//! 3. `totals.put == totals.got + totals.removed + depth`.
//! 4. No code of the caller runs in here: items, labels and wakers are moved, never dropped.
//!    What an operation has taken out is returned, and dropped once the lock is released.
//! 5. `attached` holds the slots of the attached sub-queues, `free` the vacant ones. The last slot is
//!    never vacant, so a queue that lost most of its sub-queues gives their memory back.

use super::bitmap::Bitmap;
use super::held::Held;
use super::selector::{Order, Selection, Slot};
use super::sub_queue::{Counters, Membership, QueuedItem, Sub};
use super::waiters::Wakes;
use crate::sync::planted;
use crate::wait::tickets::{Ticket, Tickets};
use std::collections::{BTreeMap, VecDeque};

/// Why an item was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutRefusal {
    /// There is no room.
    Full,
    /// There is no room, and the multi-queue whose getters would make some is gone.
    Orphaned,
    /// The sub-queue was removed.
    Removed,
    /// The multi-queue was shut down.
    ShutDown,
}

/// Why there is nothing to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nothing {
    /// Nothing now.
    Empty,
    /// Nothing, and nothing more is accepted.
    ShutDown,
}

/// What a shutdown does with the items that still wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    /// Getters still get them.
    Serve,
    /// They are taken out and counted as removed.
    Discard,
}

/// What a sub-queue is set up with.
#[derive(Clone, Copy, Debug)]
pub struct SubQueueSettings {
    /// Lower is served first.
    pub priority: i64,
    /// Items at most; `usize::MAX` is unbounded.
    pub capacity: usize,
    /// Turns in a row.
    pub weight: u32,
}

pub(super) struct MultiState<T, L> {
    pub subs: Vec<Option<Sub<T, L>>>,
    free: Bitmap,
    pub attached: Bitmap,
    ids: u64,
    pub selector: Selection,
    pub getters: Tickets,
    /// What getters hold that wait for more; see `gather`.
    pub held: BTreeMap<Ticket, Vec<Held<T>>>,
    pub servable: usize,
    full: usize,
    pub depth: usize,
    pub totals: Counters,
    pub is_shut_down: bool,
    /// An immediate shutdown: nothing comes back either.
    pub discards: bool,
    /// The multi-queue is gone, and with it all getters.
    pub is_orphaned: bool,
}

impl<T, L> MultiState<T, L> {
    pub fn new(order: Order) -> Self {
        Self {
            subs: Vec::new(),
            free: Bitmap::default(),
            attached: Bitmap::default(),
            ids: 0,
            selector: Selection::new(order),
            getters: Tickets::default(),
            held: BTreeMap::new(),
            servable: 0,
            full: 0,
            depth: 0,
            totals: Counters::default(),
            is_shut_down: false,
            discards: false,
            is_orphaned: false,
        }
    }

    /// A number that was never given out before.
    pub fn next_id(&mut self) -> u64 {
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

    /// Adds a sub-queue; gives the label back after shutdown.
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
        self.selector.insert(slot, settings.priority, settings.weight);
        Ok(slot)
    }

    /// Removes a sub-queue for good; its items stay with it. False if it was removed before.
    pub fn retire(&mut self, slot: Slot, wakes: &mut Wakes) -> bool {
        if self.sub(slot).membership == Membership::Removed {
            return false;
        }
        self.reclaim(slot);
        self.uncount_servable(slot);
        self.selector.remove(slot);
        self.attached.remove(slot);
        let sub = self.sub_mut(slot);
        sub.membership = Membership::Removed;
        let leftovers = sub.items.len();
        self.depth -= leftovers;
        self.totals.removed += leftovers as u64;
        self.notify_putters(slot, wakes);
        true
    }

    /// Forgets a removed sub-queue.
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

    /// Counts the items of a servable sub-queue and makes it ready.
    pub fn count_servable(&mut self, slot: Slot) {
        let sub = self.sub(slot);
        if sub.is_servable() {
            let (items, is_full) = (sub.items.len(), sub.room() == 0);
            self.servable += items;
            self.full += usize::from(is_full);
            self.selector.set_ready(slot, true);
        }
    }

    /// The inverse of [`MultiState::count_servable`]; one of the two stands on each side of a change.
    pub fn uncount_servable(&mut self, slot: Slot) {
        let sub = self.sub(slot);
        if sub.is_servable() {
            let (items, is_full) = (sub.items.len(), sub.room() == 0);
            self.servable -= items;
            self.full -= usize::from(is_full);
            self.selector.set_ready(slot, false);
        }
    }

    /// As [`MultiState::uncount_servable`], for a slot that may be vacant.
    pub fn uncount_servable_if_any(&mut self, slot: Slot) {
        if self.subs[slot].is_some() {
            self.uncount_servable(slot);
        }
    }

    /// Whether a full sub-queue keeps producers out until a getter takes something.
    pub fn is_stuck(&self) -> bool {
        self.full > 0
    }

    /// Why `slot` takes no item, were there room.
    pub fn refusal(&self, slot: Slot) -> Option<PutRefusal> {
        match self.sub(slot).membership {
            Membership::Removed => Some(PutRefusal::Removed),
            Membership::Attached => self.is_shut_down.then_some(PutRefusal::ShutDown),
        }
    }

    #[inline]
    pub fn push(&mut self, slot: Slot, item: T, at: u64) -> Result<(), (T, PutRefusal)> {
        if let Some(refusal) = self.refusal(slot) {
            return Err((item, refusal));
        }
        let sub = self.sub_mut(slot);
        if sub.room() == 0 {
            return Err((item, if self.is_orphaned { PutRefusal::Orphaned } else { PutRefusal::Full }));
        }
        sub.items.push_back(QueuedItem { item, at });
        let depth = sub.items.len();
        sub.counters.put += 1;
        sub.counters.high_water = sub.counters.high_water.max(depth);
        if sub.is_enabled() {
            let is_full = sub.room() == 0;
            self.servable += 1;
            self.full += usize::from(is_full);
            if depth == 1 {
                self.selector.set_ready(slot, true);
            }
        }
        self.depth += 1;
        self.totals.put += 1;
        self.totals.high_water = self.totals.high_water.max(self.depth);
        Ok(())
    }

    /// Pushes items while there is room; the first refusal ends it.
    pub fn push_many(&mut self, slot: Slot, items: &mut std::vec::IntoIter<T>, at: u64) -> Result<(), PutRefusal> {
        if let Some(refusal) = self.refusal(slot) {
            return Err(refusal);
        }
        for _ in 0..self.sub(slot).room().min(items.len()) {
            let Some(item) = items.next() else { break };
            let pushed = self.push(slot, item, at);
            debug_assert!(pushed.is_ok(), "there is room and nobody else holds the lock");
        }
        match items.len() {
            0 => Ok(()),
            _ if self.is_orphaned => Err(PutRefusal::Orphaned),
            _ => Err(PutRefusal::Full),
        }
    }

    /// Why a getter has to wait, or to give up.
    pub fn nothing(&self) -> Nothing {
        if self.is_shut_down { Nothing::ShutDown } else { Nothing::Empty }
    }

    /// Takes the item whose turn it is, with the slot of its sub-queue.
    #[inline]
    pub fn take(&mut self, wakes: &mut Wakes) -> Result<(Slot, QueuedItem<T>), Nothing> {
        match self.selector.take_turn() {
            Some(slot) => Ok((slot, self.pop(slot, wakes))),
            None => Err(self.nothing()),
        }
    }

    /// Takes the head of `slot`, if it is servable, whosever turn it is.
    pub fn take_from(&mut self, slot: Slot, wakes: &mut Wakes) -> Option<QueuedItem<T>> {
        if !self.sub(slot).is_servable() {
            return None;
        }
        self.selector.served(slot);
        Some(self.pop(slot, wakes))
    }

    /// Takes the head of `slot`, which is servable; its turn is the selector's affair.
    #[inline]
    fn pop(&mut self, slot: Slot, wakes: &mut Wakes) -> QueuedItem<T> {
        let entry = self.detach_head(slot, wakes);
        self.count_got(slot);
        entry
    }

    /// As [`MultiState::pop`], but the item still counts as waiting.
    #[inline]
    pub fn detach_head(&mut self, slot: Slot, wakes: &mut Wakes) -> QueuedItem<T> {
        let sub = self.sub_mut(slot);
        let was_full = sub.room() == 0;
        let entry = sub.items.pop_front().expect("a servable sub-queue holds an item");
        let (is_empty, has_putters) = (sub.items.is_empty(), !sub.putters.is_idle());
        let is_full = sub.room() == 0 && !is_empty;
        self.servable -= 1;
        self.full -= usize::from(was_full && !is_full);
        if is_empty {
            self.selector.set_ready(slot, false);
            self.sub_mut(slot).give_memory_back();
        }
        if has_putters {
            self.notify_putters(slot, wakes);
        }
        entry
    }

    /// The inverse of [`MultiState::detach_head`].
    pub fn attach_head(&mut self, slot: Slot, entry: QueuedItem<T>) {
        self.uncount_servable(slot);
        self.sub_mut(slot).items.push_front(entry);
        self.count_servable(slot);
    }

    /// An item that counted as waiting has been got.
    #[inline]
    pub fn count_got(&mut self, slot: Slot) {
        self.sub_mut(slot).counters.got += 1;
        self.depth -= 1;
        self.totals.got += 1;
    }

    /// An item of an attached sub-queue that counted as waiting is gone.
    pub fn count_removed(&mut self, slot: Slot) {
        self.sub_mut(slot).counters.removed += 1;
        self.depth -= 1;
        self.totals.removed += 1;
    }

    /// Nothing has been counted yet, and nothing is here.
    pub fn forget_counts(&mut self) {
        self.totals = Counters::default();
        self.depth = 0;
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

    /// Takes out the items that `is_one` holds for, in one pass.
    pub fn remove(&mut self, slot: Slot, mut is_one: impl FnMut(&T) -> bool, wakes: &mut Wakes) -> Vec<T> {
        self.uncount_servable(slot);
        let sub = self.sub_mut(slot);
        let is_attached = sub.membership == Membership::Attached;
        let (mut taken, mut kept) = (Vec::new(), VecDeque::new());
        if let Some(first) = sub.items.iter().position(|entry| is_one(&entry.item)) {
            // What stands before the first stays where it is; `is_one` is asked once about each.
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

    pub fn reject(&mut self, slot: Slot, count: u64) {
        let sub = self.sub_mut(slot);
        sub.counters.rejected += count;
        if sub.membership == Membership::Attached {
            self.totals.rejected += count;
        }
    }

    /// Refuses items from now on and wakes everybody who waits; returns what is discarded.
    pub fn shut_down(&mut self, leftovers: ShutdownMode, wakes: &mut Wakes) -> Vec<T> {
        self.is_shut_down = true;
        self.discards |= leftovers == ShutdownMode::Discard;
        let mut discarded = Vec::new();
        for slot in self.attached.iter().collect::<Vec<_>>() {
            if self.discards {
                discarded.append(&mut self.clear(slot, wakes));
            }
            self.notify_putters(slot, wakes);
        }
        discarded
    }

    /// The multi-queue is gone: putters learn that nobody makes room for them any more.
    pub fn orphan(&mut self, wakes: &mut Wakes) {
        self.is_orphaned = true;
        for slot in self.attached.iter().collect::<Vec<_>>() {
            self.notify_putters(slot, wakes);
        }
    }
}
