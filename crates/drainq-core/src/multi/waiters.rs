//! Who waits, in order of arrival, and who has been woken and has not run yet.
//!
//! A wake-up is a token, not an item: the woken waiter tries again, and if somebody was
//! faster it enters again under its old number, so it keeps its seniority. A token that its
//! owner will not use (timeout, Ctrl-C, cancellation) goes to the next in line.
//!
//! # Invariants
//! 1. `notified` holds the tickets that were woken and have not left or re-entered.
//! 2. After [`WaitList::wake`] with `available`: nobody waits, or as many wake-ups are under
//!    way. So nobody sleeps beside something to take, and nobody is woken for nothing.
//! 3. A ticket is never issued twice, so a late `leave` of one that is gone does nothing.
//!
//! Source: the waiter lists of `asyncio.Queue` (a cancelled getter wakes the next one); the
//! bound on wake-ups is ours.

use super::selector::Slot;
use crate::sync::planted;
use std::collections::{BTreeMap, BTreeSet};

/// How to reach one waiter: unparks a thread, or asks an event loop to resume a task.
pub trait Wake: Send {
    /// Wakes the waiter; false if it can no longer be reached, so the token goes on.
    ///
    /// Called without any lock held.
    fn wake(self: Box<Self>) -> bool;
}

/// A waiter's place in line.
pub type Ticket = u64;

/// Which line a waiter stands in: that of the getters, or of the putters of one sub-queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Waits for something to take.
    Getters,
    /// Waits for room in a sub-queue.
    Putters(Slot),
}

/// Waiters that are to be woken once the lock is released.
pub type Wakes = Vec<(Line, Ticket, Box<dyn Wake>)>;

/// A FIFO line of waiters.
#[derive(Default)]
pub struct WaitList {
    waiting: BTreeMap<Ticket, Box<dyn Wake>>,
    notified: BTreeSet<Ticket>,
}

impl WaitList {
    /// Whether nobody waits for a wake-up.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many wait or have been woken and not run yet.
    pub fn blocked(&self) -> usize {
        self.waiting.len() + self.notified.len()
    }

    /// Whether the holder of `ticket` has been woken.
    pub fn is_notified(&self, ticket: Ticket) -> bool {
        !self.waiting.contains_key(&ticket)
    }

    /// Lines up at the place of `ticket`; a new ticket is larger than all before it.
    ///
    /// Returns the holder's former waker, to be dropped without the lock.
    pub fn enter(&mut self, ticket: Ticket, waker: Box<dyn Wake>) -> Option<Box<dyn Wake>> {
        self.notified.remove(&ticket);
        self.waiting.insert(ticket, waker)
    }

    /// Leaves the line, or gives a wake-up back; [`WaitList::wake`] must follow.
    ///
    /// Returns the waker, to be dropped without the lock.
    pub fn leave(&mut self, ticket: Ticket) -> Option<Box<dyn Wake>> {
        if !planted("multi_spent") {
            self.notified.remove(&ticket);
        }
        self.waiting.remove(&ticket)
    }

    /// Moves the first waiters to `wakes` until `available` wake-ups are under way.
    #[inline]
    pub fn wake(&mut self, available: usize, line: Line, wakes: &mut Wakes) {
        while self.notified.len() < available {
            let Some((ticket, waker)) = self.waiting.pop_first() else {
                return;
            };
            self.notified.insert(ticket);
            wakes.push((line, ticket, waker));
        }
    }
}
