//! Whom a step has something for: the two kinds of lines, and what there is for each.

use super::selector::Slot;
use super::state::State;
use super::waiters::{Line, Offer, Ticket, WaitList, Wakes};
use crate::sync::planted;

impl<T, L> State<T, L> {
    /// Wakes putters for the room there is; all of them when there will be none any more.
    pub fn wake_putters(&mut self, slot: Slot, wakes: &mut Wakes) {
        let is_final =
            (self.refusal(slot).is_some() && !planted("multi_final")) || (self.is_orphaned && !planted("multi_orphan"));
        let sub = self.sub_mut(slot);
        if !sub.putters.is_idle() {
            let available = if is_final { usize::MAX } else { sub.room() };
            sub.putters.wake(Offer { available, is_stuck: false }, Line::Putters(slot), wakes);
        }
    }

    /// Wakes getters for what is servable; all of them after shutdown.
    #[inline]
    pub fn wake_getters(&mut self, wakes: &mut Wakes) {
        if !self.getters.is_idle() {
            let available = if self.is_shut_down { usize::MAX } else { self.servable };
            self.getters.wake(Offer { available, is_stuck: self.is_stuck() }, Line::Getters, wakes);
        }
    }

    pub fn line(&mut self, line: Line) -> &mut WaitList {
        match line {
            Line::Getters => &mut self.getters,
            Line::Putters(slot) => &mut self.sub_mut(slot).putters,
        }
    }

    /// The owner of `ticket` cannot be reached: its wake-up goes to the next, if it has not left.
    pub fn pass_on(&mut self, line: Line, ticket: Ticket, wakes: &mut Wakes) {
        if let Line::Putters(slot) = line
            && self.subs.get(slot).is_none_or(Option::is_none)
        {
            return;
        }
        if !planted("multi_unreachable") {
            self.line(line).lapse(ticket);
        }
        self.wake(line, wakes);
    }

    /// Wakes whom the line has something for.
    pub fn wake(&mut self, line: Line, wakes: &mut Wakes) {
        match line {
            Line::Getters => self.wake_getters(wakes),
            Line::Putters(slot) => self.wake_putters(slot, wakes),
        }
    }
}
