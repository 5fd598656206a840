//! A wait for items, for room or for the end of the work. However the wait ends, it is removed from the waiters.
//!
//! The protocol of every blocking call, on a thread or in an event loop:
//!
//! 1. try; on success stop here,
//! 2. [`Wait::enter`]: enter the waiters (again), to be woken at once if there are items or room,
//! 3. sleep until woken, and go back to 1.
//!
//! A [`Wait`] that is dropped leaves the waiters: its unused token goes to the next, and items that it held go back to
//! the heads of their sub-queues. So success, a timeout, Ctrl-C and a cancelled task all end in the same way.
//!
//! A thread sleeps on a [`WaitingThread`](crate::wait::thread::WaitingThread), a task on a future of its event loop.

use super::shared::{MultiShared, Owner};
use super::waiters::WaitersOf;
use crate::sync::{Arc, planted};
use crate::wait::tickets::{Request, Stalled, Ticket, TokenNumbers, Wake};

/// One waiter of a multi-queue, and the items that it holds while it waits.
pub struct Wait<T, L> {
    pub(super) shared: Arc<MultiShared<T, L>>,
    of: WaitersOf,
    /// Keeps the slot of a sub-queue alive while its putter waits.
    _owner: Option<Arc<Owner<T, L>>>,
    pub(super) ticket: Option<Ticket>,
    /// The number of available items at which the waiter is notified.
    pub(super) need: usize,
    numbers: Option<Arc<TokenNumbers>>,
    /// The last token number at the last call of [`Wait::find_stalled`].
    last_number: Option<u64>,
    /// The number of times that its thread yielded the processor instead of entering.
    pub(super) yields: usize,
}

impl<T, L> Wait<T, L> {
    pub(super) fn new(shared: Arc<MultiShared<T, L>>, of: WaitersOf, owner: Option<Arc<Owner<T, L>>>) -> Self {
        Self { shared, of, _owner: owner, ticket: None, need: 1, numbers: None, last_number: None, yields: 0 }
    }

    /// Enters the waiters; `wake` is called, at once or later, when another try may succeed.
    ///
    /// A waiter that enters again keeps its ticket, and with it its seniority.
    pub fn enter(&mut self, wake: Box<dyn Wake>) {
        let (of, held, need) = (self.of, self.ticket, self.need);
        let (ticket, numbers, _former) = self.shared.with(|state, wakes| {
            let ticket = held.unwrap_or_else(|| state.next_ticket());
            let former = state.tickets(of).enter(ticket, Request::of(need), wake);
            let numbers = state.tickets(of).numbers();
            if !planted("multi_enter") {
                state.notify(of, wakes);
            }
            (ticket, numbers, former)
        });
        self.ticket = Some(ticket);
        self.numbers = Some(numbers);
    }

    /// Finds tokens of other waiters that were given before the last call and are still unused, for
    /// [`Wait::pass_stalled_on`]. Takes no lock.
    pub fn find_stalled(&mut self) -> Option<Stalled> {
        self.numbers.as_ref()?.stalled(&mut self.last_number)
    }

    /// Takes the tokens of stalled waiters back, and gives them to the next waiters, which may include this one.
    pub fn pass_stalled_on(&self, stalled: Stalled) {
        let of = self.of;
        self.shared.with(|state, wakes| {
            state.tickets(of).lapse_up_to(stalled);
            state.notify(of, wakes);
        });
    }
}

impl<T, L> Drop for Wait<T, L> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.shared.leave(self.of, ticket);
        }
    }
}
