//! A place in one of the lines, given back however the waiting ends.
//!
//! The protocol of every blocking call, on a thread or in an event loop:
//!
//! 1. try; on success stop here,
//! 2. [`Wait::enter`]: line up (again), and be woken at once if something is there,
//! 3. sleep until woken, and go back to 1.
//!
//! Dropping the [`Wait`] leaves the line; a wake-up that was under way goes to the next.
//! So success, a timeout, Ctrl-C and a cancelled task all end in one way.

use super::owner::Owner;
use super::queue::Shared;
use super::waiters::{Line, Ticket, Wake};
use crate::sync::{Arc, planted};

/// A waiter's place in line.
pub struct Wait<T, L> {
    shared: Arc<Shared<T, L>>,
    line: Line,
    /// Keeps the slot of a putters' line alive.
    _owner: Option<Arc<Owner<T, L>>>,
    ticket: Option<Ticket>,
}

impl<T, L> Wait<T, L> {
    pub(super) fn new(shared: Arc<Shared<T, L>>, line: Line, owner: Option<Arc<Owner<T, L>>>) -> Self {
        Self { shared, line, _owner: owner, ticket: None }
    }

    /// Lines up; `wake` is called, at once or later, when it is worth trying again.
    ///
    /// Who lines up a second time keeps the first place.
    pub fn enter(&mut self, wake: Box<dyn Wake>) {
        let (line, held) = (self.line, self.ticket);
        let (ticket, _former) = self.shared.with(|state, wakes| {
            let ticket = held.unwrap_or_else(|| state.next_id());
            let former = state.line(line).enter(ticket, wake);
            if !planted("multi_enter") {
                state.wake(line, wakes);
            }
            (ticket, former)
        });
        self.ticket = Some(ticket);
    }

    /// Whether it is worth trying again.
    pub fn is_notified(&self) -> bool {
        let Some(ticket) = self.ticket else {
            return true;
        };
        self.shared.with(|state, _| state.line(self.line).is_notified(ticket))
    }
}

impl<T, L> Drop for Wait<T, L> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.shared.leave(self.line, ticket);
        }
    }
}
