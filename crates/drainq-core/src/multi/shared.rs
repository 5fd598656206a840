//! The state that the handles of one multi-queue share, and the lifetime of a sub-queue's slot.
//!
//! The last handle of a sub-queue drops its slot and the items in it.

use super::round_robin_selection::Slot;
use super::state::MultiState;
use super::waiters::{WaitersOf, Wakes};
use crate::clock::Clock;
use crate::sync::{Arc, Mutex, planted};
use crate::wait::tickets::Ticket;

/// The state that the handles of one multi-queue share.
pub struct MultiShared<T, L> {
    pub(super) state: Mutex<MultiState<T, L>>,
    pub(super) clock: Box<dyn Clock>,
}

impl<T, L> MultiShared<T, L> {
    /// Runs one step under the lock, then wakes the waiters that the step notified.
    #[inline]
    pub(super) fn with<R>(&self, step: impl FnOnce(&mut MultiState<T, L>, &mut Wakes) -> R) -> R {
        let mut wakes = Wakes::new();
        let answer = {
            let mut state = self.state.lock();
            let answer = step(&mut state, &mut wakes);
            state.notify_getters(&mut wakes);
            state.notify_joiners(&mut wakes);
            answer
        };
        if !wakes.is_empty() {
            self.deliver(wakes);
        }
        answer
    }

    /// Returns how many items wait, or were taken and are not done.
    pub fn unfinished(&self) -> u64 {
        self.state.lock().unfinished()
    }

    /// Returns the time on the clock, in nanoseconds.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        // 584 years fit.
        self.clock.now().as_nanos() as u64
    }

    /// Removes a waiter: the items that it held go back, and an unused token goes to the next waiter.
    pub(super) fn leave(&self, of: WaitersOf, ticket: Ticket) {
        // Dropped here, without the lock, because a dropped waker or item may run code of the caller.
        let _dropped = self.with(|state, wakes| {
            let discarded = state.give_back(ticket);
            let waker = state.tickets(of).leave(ticket);
            if !planted("multi_pass_on") {
                state.notify(of, wakes);
            }
            (waker, discarded)
        });
    }

    #[cold]
    fn deliver(&self, wakes: Wakes) {
        for (of, ticket, waker) in wakes {
            if !waker.wake() {
                self.with(|state, wakes| state.pass_on(of, ticket, wakes));
            }
        }
    }
}

/// Owns one slot; shared by the handle of a sub-queue and the waiters for its room.
pub struct Owner<T, L> {
    pub(super) shared: Arc<MultiShared<T, L>>,
    pub(super) slot: Slot,
}

impl<T, L> Drop for Owner<T, L> {
    fn drop(&mut self) {
        // The sub-queue and its items drop at the end, without the lock.
        let _sub = self.shared.with(|state, wakes| {
            state.retire(self.slot, wakes);
            state.release(self.slot)
        });
    }
}
