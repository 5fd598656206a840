//! Waiting in a set queue for items or for room, on a thread or in an event loop. The invariants are in `mod.rs`.

use super::state::{Guarded, WaitFor};
use crate::waiting::WaitingPlace;
use drainq_core::sync::{Mutex, MutexGuard};
use drainq_core::wait::tickets::{Request, Stalled, Ticket, TokenNumbers, Wake};
use std::sync::Arc;

/// A call that may wait. Dropping the value leaves the waiters, and passes an unused token to the next waiter
/// (invariant 4).
pub struct SetWait {
    state: Arc<Mutex<Guarded>>,
    wait_for: WaitFor,
    request: Request,
    /// A call that waits again keeps its ticket, and with it its seniority.
    ticket: Option<Ticket>,
    numbers: Option<Arc<TokenNumbers>>,
    /// The last token number at the last call of [`WaitingPlace::find_stalled`].
    last_number: Option<u64>,
}

impl SetWait {
    /// Makes a call that is not yet among the waiters.
    pub fn new(state: &Arc<Mutex<Guarded>>, wait_for: WaitFor, request: Request) -> Self {
        Self { state: state.clone(), wait_for, request, ticket: None, numbers: None, last_number: None }
    }
}

impl WaitingPlace for SetWait {
    fn enter(&mut self, wake: Box<dyn Wake>) {
        let mut state = self.state.lock();
        let ticket = *self.ticket.get_or_insert_with(|| state.next_ticket());
        let waiters = state.waiters(self.wait_for);
        self.numbers = Some(waiters.numbers());
        let former = waiters.enter(ticket, self.request, wake);
        release(&self.state, state);
        drop(former);
    }

    fn find_stalled(&mut self) -> Option<Stalled> {
        self.numbers.as_ref()?.stalled(&mut self.last_number)
    }

    fn pass_stalled_on(&self, stalled: Stalled) {
        let mut state = self.state.lock();
        state.waiters(self.wait_for).lapse_up_to(stalled);
        release(&self.state, state);
    }
}

impl Drop for SetWait {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.state.lock();
        let waker = state.waiters(self.wait_for).leave(ticket);
        release(&self.state, state);
        drop(waker);
    }
}

/// Releases the lock, and wakes the waiters for which the call made room or put an item.
#[inline]
pub fn release(all: &Mutex<Guarded>, state: MutexGuard<'_, Guarded>) {
    if state.has_waiters() {
        release_and_wake(all, state);
    }
}

#[cold]
fn release_and_wake(all: &Mutex<Guarded>, mut state: MutexGuard<'_, Guarded>) {
    let wakes = state.notify();
    drop(state);
    for (wait_for, ticket, waker) in wakes {
        if !waker.wake() {
            // The waiter cannot be reached now: its token goes to the next.
            let mut state = all.lock();
            state.waiters(wait_for).lapse(ticket);
            release(all, state);
        }
    }
}
