//! A bulk get: takes nothing until there is enough, so that two of them cannot starve each other.
//!
//! Taking what is there and waiting for the rest is hold and wait: with two getters of ten and ten
//! items, each may end up with five for ever. So a waiting bulk get leaves the items where they are
//! and is woken when there are enough of them. One exception: where a full sub-queue keeps producers
//! out, enough may never come, so the first bulk getter in line takes what is there and holds it. Only
//! one does, so nobody starves another.
//!
//! What is held lies here, under the lock, and not in the frame of the getter. It goes back to the
//! heads it came from if the wait ends otherwise, and to the leftovers of a sub-queue that is removed.
//! A getter that asks a foreign selection item by item holds what it has so far in the same way.
//!
//! # Invariants
//! 1. `held[ticket]` is in the order in which the items were taken; all are of attached sub-queues.
//! 2. A held item counts in the `depth` of its sub-queue and of the whole, in `held` of its sub-queue,
//!    and in nothing that says what can be taken.
//!
//! Source: hold and wait as a condition of deadlock, E. G. Coffman et al., *System Deadlocks* (1971).

use super::held::Held;
use super::queue::SubQueue;
use super::selector::Slot;
use super::state::MultiState;
use super::wait::Wait;
use super::waiters::Wakes;
use crate::sync::{Arc, planted};
use crate::wait::tickets::Ticket;

/// Whether a bulk get has what it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gathered {
    /// It has; or nothing more will come.
    Enough,
    /// It has to wait.
    TooFew,
}

impl<T, L> Wait<T, L> {
    /// Takes up to `most` items by turns, if that makes at least `least` with those that it holds.
    pub fn gather(&mut self, least: usize, most: usize) -> Gathered {
        let former = self.ticket;
        let (ticket, gathered, need, _discarded) = self.shared.with(|state, wakes| {
            let ticket = former.unwrap_or_else(|| state.next_id());
            if state.may_gather(ticket, least) {
                for _ in state.held_by(ticket)..most {
                    let Some(slot) = state.selector.take_turn() else { break };
                    state.hold(slot, ticket, wakes);
                }
            }
            let (gathered, need, discarded) = state.keep_or_give_back(ticket, least);
            (ticket, gathered, need, discarded)
        });
        (self.ticket, self.need) = (Some(ticket), need);
        gathered
    }

    /// Whether to take items one by one by [`SubQueue::hold`], and then to [`Wait::keep_or_give_back`].
    pub fn may_gather(&mut self, least: usize) -> bool {
        let former = self.ticket;
        let (ticket, may_gather) = self.shared.with(|state, _| {
            let ticket = former.unwrap_or_else(|| state.next_id());
            (ticket, state.may_gather(ticket, least))
        });
        self.ticket = Some(ticket);
        may_gather
    }

    /// Ends a gathering one by one: whether there is enough. If not, what another was faster to
    /// take from is given back, unless this waiter may hold.
    pub fn keep_or_give_back(&mut self, least: usize) -> Gathered {
        let Some(ticket) = self.ticket else { return Gathered::TooFew };
        let (gathered, need, _discarded) = self.shared.with(|state, _| state.keep_or_give_back(ticket, least));
        self.need = need;
        gathered
    }

    /// How many items it holds.
    pub fn held(&self) -> usize {
        self.ticket.map_or(0, |ticket| self.shared.with(|state, _| state.held_by(ticket)))
    }

    /// Hands out what it holds.
    pub fn finish(&mut self) -> Vec<T> {
        self.ticket.map_or_else(Vec::new, |ticket| self.shared.with(|state, _| state.hand_out(ticket)))
    }
}

impl<T, L> SubQueue<T, L> {
    /// Takes the head for `wait`, a getter's of the same multi-queue, to hold; false if it cannot be served.
    pub fn hold(&self, wait: &Wait<T, L>) -> bool {
        let slot = self.owner.slot;
        let (true, Some(ticket)) = (Arc::ptr_eq(&wait.shared, &self.owner.shared), wait.ticket) else { return false };
        wait.shared.with(|state, wakes| {
            let is_servable = state.sub(slot).is_servable();
            if is_servable {
                state.selector.served(slot);
                state.hold(slot, ticket, wakes);
            }
            is_servable
        })
    }
}

impl<T, L> MultiState<T, L> {
    /// Whether `ticket` may take items: enough are there, or no more will come, or it is to hold.
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

    /// Whether there is enough, and how many are missing; what is too little goes back, unless it is held.
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

    /// Moves the head of `slot`, which is servable, to what `ticket` holds.
    fn hold(&mut self, slot: Slot, ticket: Ticket, wakes: &mut Wakes) {
        let entry = self.detach_head(slot, wakes);
        self.sub_mut(slot).held += 1;
        self.held.entry(ticket).or_default().push(Held { slot, entry });
    }

    /// What `ticket` holds is got.
    fn hand_out(&mut self, ticket: Ticket) -> Vec<T> {
        let held = self.held.remove(&ticket).unwrap_or_default();
        for Held { slot, .. } in &held {
            self.sub_mut(*slot).held -= 1;
            self.count_got(*slot);
        }
        held.into_iter().map(|held| held.entry.item).collect()
    }

    /// What `ticket` holds goes back to the heads it came from; returns what a shutdown discards.
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

    /// What anybody holds of `slot` goes back to its head.
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
