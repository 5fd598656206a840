//! Everything under the multi-queue's one lock, and what each operation does to it.
//!
//! # Invariants
//! 1. `servable` is the number of items in attached, enabled sub-queues, and the selector's
//!    ready seats are exactly the sub-queues that hold them. Both are kept by
//!    [`State::seat`] and its inverse [`State::unseat`], or by one push or pop.
//! 2. `depth` is the number of items in attached sub-queues.
//! 3. `totals.put == totals.got + totals.removed + depth`.
//! 4. No code of the caller runs in here: items, labels and wakers are moved, never dropped.
//!    What an operation has taken out is returned, and dropped once the lock is released.

use super::selector::{Order, Selector, Slot};
use super::sub_queue::{Bond, Counters, Entry, Stats, Sub};
use super::waiters::{Line, Ticket, WaitList, Wakes};
use crate::sync::planted;
use std::time::Duration;

/// Why an item was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no room.
    Full,
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
pub enum Leftovers {
    /// Getters still get them.
    Serve,
    /// They are taken out and counted as removed.
    Discard,
}

/// What a sub-queue is set up with.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Lower is served first.
    pub priority: i64,
    /// Items at most; `usize::MAX` is unbounded.
    pub capacity: usize,
    /// Turns in a row.
    pub weight: u32,
}

pub(super) struct State<T, L> {
    pub subs: Vec<Option<Sub<T, L>>>,
    free: Vec<Slot>,
    ids: u64,
    pub selector: Selector,
    pub getters: WaitList,
    pub servable: usize,
    depth: usize,
    totals: Counters,
    pub is_shut_down: bool,
    /// An immediate shutdown: nothing comes back either.
    discards: bool,
}

impl<T, L> State<T, L> {
    pub fn new(order: Order) -> Self {
        Self {
            subs: Vec::new(),
            free: Vec::new(),
            ids: 0,
            selector: Selector::new(order),
            getters: WaitList::default(),
            servable: 0,
            depth: 0,
            totals: Counters::default(),
            is_shut_down: false,
            discards: false,
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
    pub fn add(&mut self, label: L, settings: Settings, disabled_by: Option<String>) -> Result<Slot, L> {
        if self.is_shut_down {
            return Err(label);
        }
        let sub = Sub {
            id: self.next_id(),
            label,
            items: Default::default(),
            priority: settings.priority,
            weight: settings.weight,
            capacity: settings.capacity,
            bond: Bond::Attached,
            disabled_by: disabled_by.into_iter().collect(),
            counters: Counters::default(),
            putters: WaitList::default(),
        };
        let slot = self.free.pop().unwrap_or(self.subs.len());
        if slot == self.subs.len() {
            self.subs.push(Some(sub));
        } else {
            self.subs[slot] = Some(sub);
        }
        self.selector.insert(slot, settings.priority, settings.weight);
        Ok(slot)
    }

    /// Removes a sub-queue for good; its items stay with it. False if it was removed before.
    pub fn retire(&mut self, slot: Slot, wakes: &mut Wakes) -> bool {
        if self.sub(slot).bond == Bond::Removed {
            return false;
        }
        self.unseat(slot);
        self.selector.remove(slot);
        let sub = self.sub_mut(slot);
        sub.bond = Bond::Removed;
        let leftovers = sub.items.len();
        self.depth -= leftovers;
        self.totals.removed += leftovers as u64;
        self.wake_putters(slot, wakes);
        true
    }

    /// Forgets a removed sub-queue.
    pub fn release(&mut self, slot: Slot) -> Option<Sub<T, L>> {
        self.free.push(slot);
        self.subs[slot].take()
    }

    /// Counts the items of a servable sub-queue and makes it ready.
    fn seat(&mut self, slot: Slot) {
        let sub = self.sub(slot);
        if sub.is_servable() {
            self.servable += sub.items.len();
            self.selector.set_ready(slot, true);
        }
    }

    /// The inverse of [`State::seat`]; one of the two stands on each side of a change.
    fn unseat(&mut self, slot: Slot) {
        let sub = self.sub(slot);
        if sub.is_servable() {
            self.servable -= sub.items.len();
            self.selector.set_ready(slot, false);
        }
    }

    /// Why `slot` takes no item, were there room.
    fn refusal(&self, slot: Slot) -> Option<Refusal> {
        match self.sub(slot).bond {
            Bond::Removed => Some(Refusal::Removed),
            Bond::Attached => self.is_shut_down.then_some(Refusal::ShutDown),
        }
    }

    #[inline]
    pub fn push(&mut self, slot: Slot, item: T, at: u64) -> Result<(), (T, Refusal)> {
        if let Some(refusal) = self.refusal(slot) {
            return Err((item, refusal));
        }
        let sub = self.sub_mut(slot);
        if sub.room() == 0 {
            return Err((item, Refusal::Full));
        }
        sub.items.push_back(Entry { item, at });
        let depth = sub.items.len();
        sub.counters.put += 1;
        sub.counters.high_water = sub.counters.high_water.max(depth);
        if sub.is_enabled() {
            self.servable += 1;
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
    pub fn push_many(&mut self, slot: Slot, items: &mut std::vec::IntoIter<T>, at: u64) -> Result<(), Refusal> {
        if let Some(refusal) = self.refusal(slot) {
            return Err(refusal);
        }
        for _ in 0..self.sub(slot).room().min(items.len()) {
            let Some(item) = items.next() else { break };
            let pushed = self.push(slot, item, at);
            debug_assert!(pushed.is_ok(), "there is room and nobody else holds the lock");
        }
        if items.len() == 0 { Ok(()) } else { Err(Refusal::Full) }
    }

    /// Why a getter has to wait, or to give up.
    pub fn nothing(&self) -> Nothing {
        if self.is_shut_down { Nothing::ShutDown } else { Nothing::Empty }
    }

    /// Takes the item whose turn it is, with the slot of its sub-queue.
    #[inline]
    pub fn take(&mut self, wakes: &mut Wakes) -> Result<(Slot, Entry<T>), Nothing> {
        match self.selector.take_turn() {
            Some(slot) => Ok((slot, self.pop(slot, wakes))),
            None => Err(self.nothing()),
        }
    }

    /// Takes the head of `slot`, if it is servable, whosever turn it is.
    pub fn take_from(&mut self, slot: Slot, wakes: &mut Wakes) -> Option<Entry<T>> {
        if !self.sub(slot).is_servable() {
            return None;
        }
        self.selector.served(slot);
        Some(self.pop(slot, wakes))
    }

    /// Takes the head of `slot`, which is servable; its turn is the selector's affair.
    #[inline]
    fn pop(&mut self, slot: Slot, wakes: &mut Wakes) -> Entry<T> {
        let sub = self.sub_mut(slot);
        let entry = sub.items.pop_front().expect("a servable sub-queue holds an item");
        sub.counters.got += 1;
        let (is_empty, has_putters) = (sub.items.is_empty(), !sub.putters.is_idle());
        self.servable -= 1;
        self.depth -= 1;
        self.totals.got += 1;
        if is_empty {
            self.selector.set_ready(slot, false);
            self.sub_mut(slot).give_memory_back();
        }
        if has_putters {
            self.wake_putters(slot, wakes);
        }
        entry
    }

    /// Undoes a [`State::pop`]: back to the head. Gives the item back if its home is gone.
    pub fn unpop(&mut self, slot: Slot, id: u64, entry: Entry<T>) -> Option<Entry<T>> {
        self.totals.got -= 1;
        let is_home = |sub: &&mut Sub<T, L>| sub.id == id;
        let Some(sub) = self.subs[slot].as_mut().filter(is_home) else {
            self.totals.removed += 1;
            return Some(entry);
        };
        sub.counters.got -= 1;
        let is_attached = sub.bond == Bond::Attached;
        if is_attached && self.discards {
            sub.counters.removed += 1;
            self.totals.removed += 1;
            return Some(entry);
        }
        self.unseat(slot);
        self.sub_mut(slot).items.push_front(entry);
        self.seat(slot);
        if is_attached {
            self.depth += 1;
        } else {
            self.totals.removed += 1;
        }
        None
    }

    /// Takes every item out of a sub-queue.
    pub fn clear(&mut self, slot: Slot, wakes: &mut Wakes) -> Vec<T> {
        self.unseat(slot);
        let sub = self.sub_mut(slot);
        let items = sub.drain();
        if sub.bond == Bond::Attached {
            self.depth -= items.len();
            self.totals.removed += items.len() as u64;
        }
        self.wake_putters(slot, wakes);
        items
    }

    /// Takes the first item out that `is_it` holds for.
    pub fn remove(&mut self, slot: Slot, is_it: impl FnMut(&T) -> bool, wakes: &mut Wakes) -> Option<T> {
        let index = self.sub(slot).items.iter().map(|entry| &entry.item).position(is_it)?;
        self.unseat(slot);
        let sub = self.sub_mut(slot);
        let entry = sub.items.remove(index)?;
        sub.counters.removed += 1;
        if sub.bond == Bond::Attached {
            self.depth -= 1;
            self.totals.removed += 1;
        }
        self.seat(slot);
        self.wake_putters(slot, wakes);
        Some(entry.item)
    }

    /// Changes the reasons for which a sub-queue is disabled.
    pub fn change_reasons(&mut self, slot: Slot, change: impl FnOnce(&mut Sub<T, L>)) {
        self.unseat(slot);
        change(self.sub_mut(slot));
        self.seat(slot);
    }

    /// Moves a sub-queue to the place after the last one of another priority.
    pub fn set_priority(&mut self, slot: Slot, priority: i64) {
        let sub = self.sub_mut(slot);
        if std::mem::replace(&mut sub.priority, priority) == priority || sub.bond == Bond::Removed {
            return;
        }
        let (weight, is_servable) = (sub.weight, sub.is_servable());
        self.selector.remove(slot);
        self.selector.insert(slot, priority, weight);
        self.selector.set_ready(slot, is_servable);
    }

    pub fn set_capacity(&mut self, slot: Slot, capacity: usize, wakes: &mut Wakes) {
        self.sub_mut(slot).capacity = capacity;
        self.wake_putters(slot, wakes);
    }

    pub fn set_weight(&mut self, slot: Slot, weight: u32) {
        self.sub_mut(slot).weight = weight;
        self.selector.set_weight(slot, weight);
    }

    pub fn reject(&mut self, slot: Slot, count: u64) {
        let sub = self.sub_mut(slot);
        sub.counters.rejected += count;
        if sub.bond == Bond::Attached {
            self.totals.rejected += count;
        }
    }

    /// Refuses items from now on and wakes everybody who waits; returns what is discarded.
    pub fn shut_down(&mut self, leftovers: Leftovers, wakes: &mut Wakes) -> Vec<T> {
        self.is_shut_down = true;
        self.discards |= leftovers == Leftovers::Discard;
        let mut discarded = Vec::new();
        for slot in self.attached() {
            if self.discards {
                discarded.append(&mut self.clear(slot, wakes));
            }
            self.wake_putters(slot, wakes);
        }
        discarded
    }

    /// The attached sub-queues.
    pub fn attached(&self) -> Vec<Slot> {
        let is_attached = |slot: &Slot| self.subs[*slot].as_ref().is_some_and(|sub| sub.bond == Bond::Attached);
        (0..self.subs.len()).filter(is_attached).collect()
    }

    /// Wakes putters for the room there is; all of them when there will be none any more.
    pub fn wake_putters(&mut self, slot: Slot, wakes: &mut Wakes) {
        let is_final = self.refusal(slot).is_some() && !planted("multi_final");
        let sub = self.sub_mut(slot);
        let room = if is_final { usize::MAX } else { sub.room() };
        sub.putters.wake(room, Line::Putters(slot), wakes);
    }

    /// Wakes getters for what is servable; all of them after shutdown.
    #[inline]
    pub fn wake_getters(&mut self, wakes: &mut Wakes) {
        if !self.getters.is_idle() {
            let available = if self.is_shut_down { usize::MAX } else { self.servable };
            self.getters.wake(available, Line::Getters, wakes);
        }
    }

    pub fn line(&mut self, line: Line) -> &mut WaitList {
        match line {
            Line::Getters => &mut self.getters,
            Line::Putters(slot) => &mut self.sub_mut(slot).putters,
        }
    }

    /// The holder of `ticket` cannot be reached: its wake-up goes to the next, if it has not left.
    pub fn pass_on(&mut self, line: Line, ticket: Ticket, wakes: &mut Wakes) {
        if let Line::Putters(slot) = line
            && self.subs[slot].is_none()
        {
            return;
        }
        self.line(line).leave(ticket);
        self.wake(line, wakes);
    }

    /// Wakes whom the line has something for.
    pub fn wake(&mut self, line: Line, wakes: &mut Wakes) {
        match line {
            Line::Getters => self.wake_getters(wakes),
            Line::Putters(slot) => self.wake_putters(slot, wakes),
        }
    }

    pub fn sub_stats(&self, slot: Slot, now: u64) -> Stats {
        let sub = self.sub(slot);
        Stats {
            depth: sub.items.len(),
            counters: sub.counters,
            oldest_age: sub.items.front().map(|head| Duration::from_nanos(now.saturating_sub(head.at))),
            blocked_putters: sub.putters.blocked(),
        }
    }

    /// The counters of the whole, items of removed sub-queues included.
    pub fn total_stats(&self, now: u64) -> Stats {
        let each: Vec<Stats> = self.attached().into_iter().map(|slot| self.sub_stats(slot, now)).collect();
        Stats {
            depth: self.depth,
            counters: self.totals,
            oldest_age: each.iter().filter_map(|sub| sub.oldest_age).max(),
            blocked_putters: each.iter().map(|sub| sub.blocked_putters).sum(),
        }
    }
}
