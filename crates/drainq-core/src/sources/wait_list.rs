//! Who waits for something to happen, first come first woken.
//!
//! The list is part of the state that its owner's lock guards. So between a look at that state
//! and [`WaitList::join`] nothing can happen that the waiter would miss.
//!
//! # Invariants
//! 1. A ticket is in the list from `join` until it is woken or leaves; the list is in the order
//!    of the tickets' numbers.
//! 2. A wake-up is spent by the waiter it was for, or handed on: [`WaitList::leave`] says which
//!    it was, and a waiter that leaves without using its wake-up wakes the next.
//! 3. A ticket's flag is set, before its thread is unparked, by the step that takes the waiter
//!    out of the list to wake it. So a parked thread reads the flag alone and needs no lock.

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Parker, Unparker, planted};
use std::collections::VecDeque;

/// Waiters in the order in which they came.
#[derive(Default)]
pub struct WaitList {
    waiters: VecDeque<Waiter>,
    last: u64,
}

struct Waiter {
    number: u64,
    tag: u64,
    thread: Unparker,
    is_woken: Arc<AtomicBool>,
}

impl Waiter {
    fn wake(&self) {
        self.is_woken.store(true, Ordering::Release);
        if !planted("wait_list_unpark") {
            self.thread.unpark();
        }
    }
}

/// A waiter's place in a [`WaitList`].
#[derive(Debug)]
pub struct Ticket {
    number: u64,
    is_woken: Arc<AtomicBool>,
}

impl Ticket {
    /// Whether the waiter has been woken; takes no lock (invariant 3).
    pub fn is_woken(&self) -> bool {
        self.is_woken.load(Ordering::Acquire)
    }
}

/// How a waiter left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It had been woken: what it was woken for may still be there.
    Woken,
    /// Nobody had woken it.
    Unwoken,
}

impl WaitList {
    /// Adds a waiter that parks on `parker`; `tag` is what [`wake_tagged`](Self::wake_tagged) knows it by.
    pub fn join(&mut self, parker: &Parker, tag: u64) -> Ticket {
        self.last += 1;
        let is_woken = Arc::new(AtomicBool::new(false));
        let thread = parker.unparker().clone();
        self.waiters.push_back(Waiter { number: self.last, tag, thread, is_woken: is_woken.clone() });
        Ticket { number: self.last, is_woken }
    }

    /// Wakes up to `n` waiters, the first ones.
    #[inline]
    pub fn wake(&mut self, n: usize) {
        for _ in 0..n {
            let Some(waiter) = self.waiters.pop_front() else { return };
            waiter.wake();
        }
    }

    /// Wakes all waiters.
    pub fn wake_all(&mut self) {
        self.wake(self.waiters.len());
    }

    /// Wakes all waiters with this tag.
    #[inline]
    pub fn wake_tagged(&mut self, tag: u64) {
        self.waiters.retain(|waiter| {
            if waiter.tag == tag {
                waiter.wake();
            }
            waiter.tag != tag
        });
    }

    /// Takes a waiter out.
    pub fn leave(&mut self, ticket: &Ticket) -> Left {
        match self.waiters.binary_search_by_key(&ticket.number, |waiter| waiter.number) {
            Ok(place) => {
                self.waiters.remove(place);
                Left::Unwoken
            }
            Err(_) => Left::Woken,
        }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Arc, Mutex, model, thread};

    struct Cell {
        full: bool,
        takers: WaitList,
    }

    #[test]
    fn a_waiter_sees_what_it_is_woken_for() {
        model(|| {
            let cell = Arc::new(Mutex::new(Cell { full: false, takers: WaitList::default() }));
            let theirs = cell.clone();
            let taker = thread::spawn(move || {
                let parker = Parker::new();
                loop {
                    let mut state = theirs.lock();
                    if std::mem::take(&mut state.full) {
                        return;
                    }
                    state.takers.join(&parker, 0);
                    drop(state);
                    parker.park();
                }
            });
            let mut state = cell.lock();
            state.full = true;
            state.takers.wake(1);
            drop(state);
            taker.join().unwrap();
            assert!(!cell.lock().full);
        });
    }

    #[test]
    #[cfg(not(any(loom, drainq_shuttle)))]
    fn the_first_to_come_is_the_first_to_be_woken() {
        let mut list = WaitList::default();
        let parkers = [Parker::new(), Parker::new()];
        let tickets = parkers.each_ref().map(|parker| list.join(parker, 0));
        list.wake(1);
        assert_eq!(tickets.map(|ticket| list.leave(&ticket)), [Left::Woken, Left::Unwoken]);
        assert!(list.is_empty());
    }

    #[test]
    #[cfg(not(any(loom, drainq_shuttle)))]
    fn a_tag_wakes_its_own_and_no_others() {
        let mut list = WaitList::default();
        let parker = Parker::new();
        let tickets = [7, 8, 7].map(|tag| list.join(&parker, tag));
        list.wake_tagged(7);
        assert_eq!(tickets.map(|ticket| ticket.is_woken()), [true, false, true]);
        assert_eq!(list.len(), 1);
    }
}
