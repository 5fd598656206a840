//! Waiting in a set queue for an item or for room. The invariants are in `mod.rs`.

use super::SetQueue;
use super::state::{Guarded, WaitFor};
use crate::deadline::{self, Deadline};
use drainq_core::sources::wait_list::Left;
use drainq_core::sync::{MutexGuard, Parker};
use pyo3::prelude::*;

impl SetQueue {
    /// Waits until this waiter is notified; false if the time ran out. `tag` is the hash of a putter's key.
    pub(super) fn wait(
        &self,
        py: Python<'_>,
        mut state: MutexGuard<'_, Guarded>,
        wait_for: WaitFor,
        tag: u64,
        deadline: Deadline,
    ) -> PyResult<bool> {
        let parker = Parker::new();
        let ticket = state.waiters(wait_for).join(&parker, tag);
        drop(state);
        let sleeper = &ticket;
        let woken = deadline::wait(py, deadline, move |slice| {
            parker.park_timeout(slice);
            sleeper.is_woken().then_some(())
        });
        let left = self.state.lock().waiters(wait_for).leave(&ticket);
        Ok(woken?.is_some() || left == Left::Woken)
    }

    /// Notifies the next waiter if there is an item, or room, for it (invariant 4).
    pub(super) fn hand_on(&self, wait_for: WaitFor) {
        let mut state = self.state.lock();
        let is_there = match wait_for {
            WaitFor::Item => !state.queue.is_empty(),
            WaitFor::Room => self.capacity.is_none_or(|capacity| state.queue.len() < capacity),
        };
        if is_there {
            state.waiters(wait_for).wake(1);
        }
    }
}
