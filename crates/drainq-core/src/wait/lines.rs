//! Lines of waiters, one line for each thing that is waited for: room in a partition, or the end of a flush or a queue.
//!
//! The state that they wait for is read and written without the lock of the lines. So, as in
//! [`waiters`](super::waiters), only fences order a waiter's check against the change of another thread. A line is a
//! [`Tickets`]: its waiters are notified by tokens, in the order in which they came.
//!
//! # Invariants
//! 1. A waiter is counted, runs a SeqCst fence, then checks the state. A thread that has changed the state runs a
//!    SeqCst fence, then reads the count. So either the waiter sees the change, or that thread finds the waiter.
//! 2. The count changes only under the lock, with the waiters. A token does not change it.
//! 3. Wakers are called without the lock. The token of an unreachable waiter goes to the next waiter of the line.
//!
//! # Synchronization
//!
//! | step | ordering | fault that a model notices |
//! | --- | --- | --- |
//! | count the waiter, **fence**, look at the state | SeqCst | `lines_enter_fence` |
//! | change the state, **fence**, read the count | SeqCst | `lines_wake_fence` |

use super::tickets::{Offer, Request, Ticket, Tickets, Wake, Wakes};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, full_fence};
use std::collections::BTreeMap;

struct Line<A> {
    awaited: A,
    tickets: Tickets,
}

struct State<N, A> {
    by_name: BTreeMap<N, Line<A>>,
    last_ticket: Ticket,
}

/// Lines by name `N`, each of which waits for an `A`.
pub struct Lines<N, A> {
    /// The number of waiters, for a thread that does not take the lock.
    count: AtomicUsize,
    state: Mutex<State<N, A>>,
}

impl<N: Ord + Copy, A> Lines<N, A> {
    /// Makes an empty set of lines.
    pub fn new() -> Self {
        Self { count: AtomicUsize::new(0), state: Mutex::new(State { by_name: BTreeMap::new(), last_ticket: 0 }) }
    }

    /// Wakes the waiters for which there is something. Call this after each change of the state. `look` returns what
    /// there is for a line. This method calls `look` under the lock.
    #[inline]
    pub fn wake(&self, look: impl Fn(&A) -> Offer) {
        full_fence("lines_wake_fence");
        if self.count.load(Ordering::Relaxed) > 0 {
            self.change(look, |_| ());
        }
    }

    /// Adds a waiter to the line whose name `name` returns for the waiter's ticket. A waiter that waits again passes
    /// its old `ticket`; `None` makes a new ticket. Returns the ticket.
    pub fn enter(
        &self,
        ticket: Option<Ticket>,
        name: impl FnOnce(Ticket) -> N,
        awaited: impl FnOnce() -> A,
        waker: Box<dyn Wake>,
        look: impl Fn(&A) -> Offer,
    ) -> Ticket {
        let (ticket, _former) = self.change(look, |state| {
            let ticket = ticket.unwrap_or(state.last_ticket + 1);
            state.last_ticket = state.last_ticket.max(ticket);
            let new = || Line { awaited: awaited(), tickets: Tickets::default() };
            let line = state.by_name.entry(name(ticket)).or_insert_with(new);
            (ticket, line.tickets.enter(ticket, Request::of(1), waker))
        });
        ticket
    }

    /// Removes a waiter from a line. Its unused token goes to the next waiter, and an empty line is removed.
    pub fn leave(&self, name: N, ticket: Ticket, look: impl Fn(&A) -> Offer) {
        let _gone = self.change(look, |state| {
            let line = state.by_name.get_mut(&name)?;
            let waker = line.tickets.leave(ticket);
            let empty = (line.tickets.blocked() == 0).then(|| state.by_name.remove(&name));
            Some((waker, empty))
        });
    }

    /// Changes the waiters, notifies those for which there is something, and wakes the notified ones without the lock.
    fn change<R>(&self, look: impl Fn(&A) -> Offer, change: impl FnOnce(&mut State<N, A>) -> R) -> R {
        let (answer, mut wakes) = {
            let mut state = self.state.lock();
            let answer = change(&mut state);
            let waiters = state.by_name.values().map(|line| line.tickets.blocked()).sum();
            self.count.store(waiters, Ordering::Relaxed);
            full_fence("lines_enter_fence");
            (answer, state.notify(&look))
        };
        while !wakes.is_empty() {
            let unreached: Vec<_> = wakes
                .into_iter()
                .filter_map(|(name, ticket, waker)| (!waker.wake()).then_some((name, ticket)))
                .collect();
            let mut state = self.state.lock();
            for (name, ticket) in unreached {
                if let Some(line) = state.by_name.get_mut(&name) {
                    line.tickets.lapse(ticket);
                }
            }
            wakes = state.notify(&look);
        }
        answer
    }
}

impl<N: Ord + Copy, A> Default for Lines<N, A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<N: Ord + Copy, A> State<N, A> {
    fn notify(&mut self, look: impl Fn(&A) -> Offer) -> Wakes<N> {
        let mut wakes = Wakes::new();
        for (name, line) in &mut self.by_name {
            line.tickets.notify(look(&line.awaited), *name, &mut wakes);
        }
        wakes
    }
}
