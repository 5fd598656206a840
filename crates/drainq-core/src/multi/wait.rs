//! A place in one of the lines, given back however the waiting ends.
//!
//! The protocol of every blocking call, on a thread or in an event loop:
//!
//! 1. try; on success stop here,
//! 2. [`Wait::enter`]: line up (again), and be woken at once if something is there,
//! 3. sleep until woken, and go back to 1.
//!
//! Dropping the [`Wait`] leaves the line; a wake-up that was under way goes to the next, and
//! items that were held go back to the heads they came from. So success, a timeout, Ctrl-C and a
//! cancelled task all end in one way.
//!
//! A thread sleeps on a [`Sleeper`], whose flag it reads without the queue's lock. So a thread that
//! gave up an interpreter's lock to sleep never takes the queue's, and a fork under the interpreter's
//! lock finds the queue's free.

use super::shared::{Owner, Shared};
use super::waiters::{Line, Pulse, Ticket, Wake};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Parker, Unparker, planted};
use std::time::Duration;

/// A waiter's place in line, and what it holds while it waits there.
pub struct Wait<T, L> {
    pub(super) shared: Arc<Shared<T, L>>,
    line: Line,
    /// Keeps the slot of a putters' line alive.
    _owner: Option<Arc<Owner<T, L>>>,
    pub(super) ticket: Option<Ticket>,
    /// What it has to find when it is woken.
    pub(super) need: usize,
    pulse: Option<Arc<Pulse>>,
    look: Option<u64>,
}

impl<T, L> Wait<T, L> {
    pub(super) fn new(shared: Arc<Shared<T, L>>, line: Line, owner: Option<Arc<Owner<T, L>>>) -> Self {
        Self { shared, line, _owner: owner, ticket: None, need: 1, pulse: None, look: None }
    }

    /// Lines up; `wake` is called, at once or later, when it is worth trying again.
    ///
    /// Who lines up a second time keeps the first place.
    pub fn enter(&mut self, wake: Box<dyn Wake>) {
        let (line, held, need) = (self.line, self.ticket, self.need);
        let (ticket, pulse, _former) = self.shared.with(|state, wakes| {
            let ticket = held.unwrap_or_else(|| state.next_id());
            let former = state.line(line).enter(ticket, need, wake);
            let pulse = state.line(line).pulse();
            if !planted("multi_enter") {
                state.wake(line, wakes);
            }
            (ticket, pulse, former)
        });
        self.ticket = Some(ticket);
        self.pulse = Some(pulse);
    }

    /// What [`Wait::pass_stalled_on`] is to pass on: wake-ups of others in this line that have been
    /// under way since the call before, at least. Takes no lock.
    pub fn find_stalled(&mut self) -> Option<Stalled> {
        self.pulse.as_ref()?.stalled(&mut self.look).map(Stalled)
    }

    /// Gives wake-ups whose owners do not run to the next in line, perhaps this waiter.
    pub fn pass_stalled_on(&self, Stalled(last): Stalled) {
        let line = self.line;
        self.shared.with(|state, wakes| {
            state.line(line).lapse_up_to(last);
            state.wake(line, wakes);
        });
    }
}

impl<T, L> Drop for Wait<T, L> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.shared.leave(self.line, ticket);
        }
    }
}

/// Wake-ups that have not been used for long.
#[derive(Clone, Copy, Debug)]
pub struct Stalled(u64);

/// What a thread sleeps on.
#[derive(Debug, Default)]
pub struct Sleeper {
    parker: Parker,
    is_woken: Arc<AtomicBool>,
}

struct ThreadWaker {
    thread: Unparker,
    is_woken: Arc<AtomicBool>,
}

impl Wake for ThreadWaker {
    fn wake(self: Box<Self>) -> bool {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
        true
    }
}

impl Sleeper {
    /// For [`Wait::enter`]: wakes this thread. Earlier wake-ups are forgotten.
    pub fn waker(&self) -> Box<dyn Wake> {
        self.is_woken.store(false, Ordering::Relaxed);
        Box::new(ThreadWaker { thread: self.parker.unparker().clone(), is_woken: self.is_woken.clone() })
    }

    /// Whether it has been woken since the last [`Sleeper::waker`].
    pub fn is_woken(&self) -> bool {
        self.is_woken.load(Ordering::Acquire)
    }

    /// Sleeps until it is woken.
    pub fn sleep(&self) {
        while !self.is_woken() {
            self.parker.park();
        }
    }

    /// Sleeps until it is woken, or this long; whether it was woken.
    pub fn sleep_for(&self, limit: Duration) -> bool {
        if !self.is_woken() {
            self.parker.park_timeout(limit);
        }
        self.is_woken()
    }
}
