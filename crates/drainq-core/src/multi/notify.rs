//! Notifies the waiters that a step can serve.

use super::round_robin_selection::Slot;
use super::state::MultiState;
use super::waiters::{WaitersOf, Wakes};
use crate::sync::planted;
use crate::wait::tickets::{Offer, Ticket, Tickets};

impl<T, L> MultiState<T, L> {
    /// Notifies putters for the available room; all of them if there will never be room again.
    pub fn notify_putters(&mut self, slot: Slot, wakes: &mut Wakes) {
        let is_final =
            (self.refusal(slot).is_some() && !planted("multi_final")) || (self.is_orphaned && !planted("multi_orphan"));
        let sub = self.sub_mut(slot);
        if !sub.putters.is_idle() {
            let offer = if is_final { Offer::END } else { Offer::of(sub.room()) };
            sub.putters.notify(offer, WaitersOf::Putters(slot), wakes);
        }
    }

    /// Notifies getters for the items that can be taken; all of them after shutdown.
    #[inline]
    pub fn notify_getters(&mut self, wakes: &mut Wakes) {
        if !self.getters.is_idle() {
            let available = if self.is_shut_down { usize::MAX } else { self.servable };
            let offer = Offer { available, is_stuck: self.is_stuck() };
            self.getters.notify(offer, WaitersOf::Getters, wakes);
        }
    }

    /// Notifies all joiners if every item that was put is done.
    #[inline]
    pub fn notify_joiners(&mut self, wakes: &mut Wakes) {
        if !self.joiners.is_idle() && self.unfinished() == 0 && !planted("multi_join") {
            self.joiners.notify(Offer::END, WaitersOf::Joiners, wakes);
        }
    }

    /// Notifies these waiters for the available items or room.
    pub fn notify(&mut self, of: WaitersOf, wakes: &mut Wakes) {
        match of {
            WaitersOf::Getters => self.notify_getters(wakes),
            WaitersOf::Putters(slot) => self.notify_putters(slot, wakes),
            WaitersOf::Joiners => self.notify_joiners(wakes),
        }
    }

    /// Returns the tickets of these waiters.
    pub fn tickets(&mut self, of: WaitersOf) -> &mut Tickets {
        match of {
            WaitersOf::Getters => &mut self.getters,
            WaitersOf::Putters(slot) => &mut self.sub_mut(slot).putters,
            WaitersOf::Joiners => &mut self.joiners,
        }
    }

    /// Gives the token of a waiter that cannot be reached to the next waiter; does nothing if the waiter has left.
    pub fn pass_on(&mut self, of: WaitersOf, ticket: Ticket, wakes: &mut Wakes) {
        if let WaitersOf::Putters(slot) = of
            && self.subs.get(slot).is_none_or(Option::is_none)
        {
            return;
        }
        if !planted("multi_unreachable") {
            self.tickets(of).lapse(ticket);
        }
        self.notify(of, wakes);
    }
}
