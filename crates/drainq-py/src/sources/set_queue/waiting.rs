//! Waiting in a set queue for an item or for room. The invariants are in `mod.rs`.

use super::SetQueue;
use super::state::{Guarded, WaitFor};
use crate::ctrl_c;
use crate::deadline::Deadline;
use drainq_core::sync::MutexGuard;
use drainq_core::wait::thread::WaitingThread;
use drainq_core::wait::tickets::{Request, Ticket};
use pyo3::prelude::*;

/// A call that may wait. Dropping the value leaves the waiters, and passes an unused token to the next waiter
/// (invariant 4).
pub(super) struct WaitingCall<'a> {
    queue: &'a SetQueue,
    wait_for: WaitFor,
    ticket: Option<Ticket>,
}

impl<'a> WaitingCall<'a> {
    /// Makes a call that is not yet among the waiters.
    pub fn new(queue: &'a SetQueue, wait_for: WaitFor) -> Self {
        Self { queue, wait_for, ticket: None }
    }

    /// Enters the waiters, releases the lock and sleeps; returns false if the time ran out.
    ///
    /// A call that waits again keeps its ticket, and with it its seniority.
    pub fn wait(
        &mut self,
        py: Python<'_>,
        mut state: MutexGuard<'_, Guarded>,
        tag: u64,
        deadline: Deadline,
    ) -> PyResult<bool> {
        let mut thread = WaitingThread::default();
        let ticket = *self.ticket.get_or_insert_with(|| state.next_ticket());
        let _former = state.waiters(self.wait_for).enter(ticket, Request { need: 1, tag }, thread.waker());
        self.queue.release(state);
        let sleeping = &mut thread;
        ctrl_c::wait(py, deadline, move |slice| sleeping.sleep_for(slice).then_some(()))?;
        Ok(thread.is_woken())
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let mut state = self.queue.state.lock();
            let _waker = state.waiters(self.wait_for).leave(ticket);
            self.queue.release(state);
        }
    }
}

impl SetQueue {
    /// Releases the lock, and wakes the waiters for which the call made room or put an item.
    #[inline]
    pub(super) fn release(&self, state: MutexGuard<'_, Guarded>) {
        if state.has_waiters() {
            self.release_and_wake(state);
        }
    }

    #[cold]
    fn release_and_wake(&self, mut state: MutexGuard<'_, Guarded>) {
        let wakes = state.notify(self.capacity);
        drop(state);
        for (_, _, waker) in wakes {
            waker.wake();
        }
    }
}
