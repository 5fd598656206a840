//! A bulk get takes no item until there are enough, so that two bulk gets cannot starve each other.
//!
//! Taking the available items and waiting for the rest is *hold and wait*: if two getters want ten items each and there
//! are ten, each may hold five for ever. So a waiting bulk get leaves the items in the queue and is notified when there
//! are enough. One exception: if a full sub-queue blocks its producers, there may never be enough items, so the first
//! waiting bulk getter takes the available items and holds them. Only one getter holds items at a time, so holders
//! cannot starve each other.
//!
//! Held items are stored here, under the lock, and not in the stack frame of the getter. If the wait ends without
//! success they go back to the heads of their sub-queues, even if a sub-queue was removed meanwhile. A getter with a
//! Python object as selection calls that object for each item, and holds items in the same way.
//!
//! # Invariants
//! 1. `held[ticket]` is in the order in which the items were taken; all are of attached sub-queues.
//! 2. A held item counts in the `depth` of its sub-queue and of the whole, and in `held` of its sub-queue. It does not
//!    count as available.
//!
//! Source: hold and wait as a condition of deadlock, E. G. Coffman et al., *System Deadlocks* (1971).

use super::queue::SubQueue;
use super::round_robin_selection::Slot;
use super::state::MultiState;
use super::sub_queue::Held;
use super::wait::Wait;
use super::waiters::Wakes;
use crate::sync::{Arc, planted};
use crate::wait::tickets::Ticket;

/// Whether a bulk get has enough items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gathered {
    /// There are enough, or no more items will come.
    Enough,
    /// There are too few: the getter must wait.
    TooFew,
}

impl<T, L> Wait<T, L> {
    /// Takes up to `most` items by turns, if there are at least `least`, including held ones.
    pub fn gather(&mut self, least: usize, most: usize) -> Gathered {
        let former = self.ticket;
        let (ticket, gathered, need, _discarded) = self.shared.with(|state, wakes| {
            let ticket = former.unwrap_or_else(|| state.next_ticket());
            if state.may_gather(ticket, least) {
                for _ in state.held_by(ticket)..most {
                    let Some(slot) = state.selection.take_turn() else { break };
                    state.hold(slot, ticket, wakes);
                }
            }
            let (gathered, need, discarded) = state.keep_or_give_back(ticket, least);
            (ticket, gathered, need, discarded)
        });
        (self.ticket, self.need) = (Some(ticket), need);
        gathered
    }

    /// Whether the getter may take items one by one with [`SubQueue::hold`]; [`Wait::keep_or_give_back`] must follow.
    pub fn may_gather(&mut self, least: usize) -> bool {
        let former = self.ticket;
        let (ticket, may_gather) = self.shared.with(|state, _| {
            let ticket = former.unwrap_or_else(|| state.next_ticket());
            (ticket, state.may_gather(ticket, least))
        });
        self.ticket = Some(ticket);
        may_gather
    }

    /// Ends the gathering that [`Wait::may_gather`] began; returns whether there are enough items. If there are not,
    /// because another getter was faster, the items are given back, unless this waiter is the holder.
    pub fn keep_or_give_back(&mut self, least: usize) -> Gathered {
        let Some(ticket) = self.ticket else { return Gathered::TooFew };
        let (gathered, need, _discarded) = self.shared.with(|state, _| state.keep_or_give_back(ticket, least));
        self.need = need;
        gathered
    }

    /// Returns the number of held items.
    pub fn held(&self) -> usize {
        self.ticket.map_or(0, |ticket| self.shared.with(|state, _| state.held_by(ticket)))
    }

    /// Returns the held items and counts them as got.
    pub fn finish(&mut self) -> Vec<T> {
        self.ticket.map_or_else(Vec::new, |ticket| self.shared.with(|state, _| state.hand_out(ticket)))
    }
}

impl<T, L> SubQueue<T, L> {
    /// Lets `wait`, a getter of the same multi-queue, hold the head; returns false if this sub-queue cannot be served.
    pub fn hold(&self, wait: &Wait<T, L>) -> bool {
        let slot = self.owner.slot;
        let (true, Some(ticket)) = (Arc::ptr_eq(&wait.shared, &self.owner.shared), wait.ticket) else { return false };
        wait.shared.with(|state, wakes| {
            let is_servable = state.sub(slot).is_servable();
            if is_servable {
                state.selection.served(slot);
                state.hold(slot, ticket, wakes);
            }
            is_servable
        })
    }
}

impl<T, L> MultiState<T, L> {
    /// Whether `ticket` may take items: there are enough, no more will come, or it becomes the holder.
    fn may_gather(&mut self, ticket: Ticket, least: usize) -> bool {
        let missing = least.saturating_sub(self.held_by(ticket));
        if missing <= self.servable || self.is_shut_down || planted("multi_hold_and_wait") {
            return true;
        }
        let holds = self.is_stuck() && self.getters.may_hold(ticket) && !planted("multi_stuck");
        if holds {
            self.getters.set_holder(ticket);
        }
        holds
    }

    /// Returns whether there are enough items, how many the getter needs, and the items that a shutdown discards. Too
    /// few items go back, unless `ticket` is the holder.
    fn keep_or_give_back(&mut self, ticket: Ticket, least: usize) -> (Gathered, usize, Vec<T>) {
        let missing = least.saturating_sub(self.held_by(ticket));
        if missing == 0 || self.is_shut_down {
            return (Gathered::Enough, 1, Vec::new());
        }
        let keeps = self.getters.is_holder(ticket) || planted("multi_hold_and_wait") || planted("multi_keep");
        let discarded = if keeps { Vec::new() } else { self.give_back(ticket) };
        (Gathered::TooFew, least - self.held_by(ticket), discarded)
    }

    fn held_by(&self, ticket: Ticket) -> usize {
        self.held.get(&ticket).map_or(0, Vec::len)
    }

    /// Moves the head of `slot`, which can be served, to the items that `ticket` holds.
    fn hold(&mut self, slot: Slot, ticket: Ticket, wakes: &mut Wakes) {
        let entry = self.detach_head(slot, wakes);
        self.sub_mut(slot).held += 1;
        self.held.entry(ticket).or_default().push(Held { slot, entry });
    }

    /// Takes out the items that `ticket` holds, and counts them as got.
    fn hand_out(&mut self, ticket: Ticket) -> Vec<T> {
        let held = self.held.remove(&ticket).unwrap_or_default();
        for Held { slot, .. } in &held {
            self.sub_mut(*slot).held -= 1;
            self.count_got(*slot);
        }
        held.into_iter().map(|held| held.entry.item).collect()
    }

    /// Gives the items that `ticket` holds back to the heads of their sub-queues; returns the items that a shutdown
    /// discards.
    pub fn give_back(&mut self, ticket: Ticket) -> Vec<T> {
        let held = self.held.remove(&ticket).unwrap_or_default();
        let mut discarded = Vec::new();
        let newest_first: Vec<_> = if planted("multi_give_back") { held } else { held.into_iter().rev().collect() };
        for Held { slot, entry } in newest_first {
            self.sub_mut(slot).held -= 1;
            if self.discards {
                self.count_removed(slot);
                discarded.push(entry.item);
            } else {
                self.attach_head(slot, entry);
            }
        }
        discarded
    }

    /// Returns all held items of `slot` to its head.
    pub fn reclaim(&mut self, slot: Slot) {
        if planted("multi_reclaim") || self.sub(slot).held == 0 {
            return;
        }
        let mut back = Vec::new();
        for held in self.held.values_mut() {
            back.extend(held.extract_if(.., |held| held.slot == slot));
        }
        self.held.retain(|_, held| !held.is_empty());
        self.sub_mut(slot).held = 0;
        for Held { entry, .. } in back.into_iter().rev() {
            self.attach_head(slot, entry);
        }
    }
}
