//! The state that a set queue's lock guards. The invariants are in `mod.rs`.

use crate::fork::Renew;
use crate::sources::identity::KnownItem;
use crate::{arguments, errors};
use drainq_core::sources::set_queue::{AfterTake, SetQueue as Core};
use drainq_core::sync::Mutex;
use drainq_core::wait::tickets::{Offer, Ticket, Tickets, Wakes};
use pyo3::prelude::*;
use std::time::Duration;

/// The items, the waiters and the counters of a set queue.
pub struct Guarded {
    pub queue: Core<KnownItem>,
    /// The most items; `usize::MAX` is unbounded.
    pub capacity: usize,
    pub getters: Tickets,
    pub putters: Tickets,
    pub joiners: Tickets,
    last_ticket: Ticket,
    /// Waiters to wake once the lock is released.
    wakes: Wakes<WaitFor>,
    pub closed: bool,
    pub put: u64,
    pub got: u64,
    /// How many of the items that were got are done.
    pub done: u64,
    pub duplicates: u64,
}

/// The event for which a waiter waits.
#[derive(Clone, Copy)]
pub enum WaitFor {
    /// Getters wait for an item.
    Item,
    /// Putters wait for room.
    Room,
    /// Joiners wait until each item is done.
    Done,
}

impl Renew for Mutex<Guarded> {
    fn renew_in_child(&self, _py: Python<'_>) {
        // The lock is free in the child, because it is only taken with the GIL held, or between forks (invariant 5).
        let mut state = self.lock();
        std::mem::forget(state.queue.reset());
        std::mem::forget(std::mem::take(&mut state.getters));
        std::mem::forget(std::mem::take(&mut state.putters));
        std::mem::forget(std::mem::take(&mut state.joiners));
        std::mem::forget(std::mem::take(&mut state.wakes));
        (state.put, state.got, state.done, state.duplicates) = (0, 0, 0, 0);
    }
}

impl Guarded {
    /// Makes an empty, open queue.
    pub fn new(after_take: AfterTake, capacity: usize) -> Self {
        Self {
            queue: Core::new(after_take),
            capacity,
            getters: Tickets::default(),
            putters: Tickets::default(),
            joiners: Tickets::default(),
            last_ticket: 0,
            wakes: Wakes::new(),
            closed: false,
            put: 0,
            got: 0,
            done: 0,
            duplicates: 0,
        }
    }

    /// Takes the first item, and counts it as got.
    #[inline]
    pub fn take<'py>(&mut self, py: Python<'py>, now: Duration) -> Option<TakenItem<'py>> {
        let (item, key) = self.queue.take(
            now,
            |entry| (entry.item.take().unwrap_or_else(|| entry.key.clone_ref(py)), None),
            |entry| match entry.item {
                None => (entry.key, None),
                Some(item) => (item, Some(entry.key)),
            },
        )?;
        self.got += 1;
        Some(TakenItem { item: item.into_bound(py), _key: key })
    }

    /// Returns how many items wait, or were taken and are not done.
    pub fn unfinished(&self) -> u64 {
        self.queue.len() as u64 + self.got - self.done
    }

    /// Counts one taken item as done; returns false if all taken items are done already.
    pub fn task_done(&mut self) -> bool {
        let is_one = self.done < self.got;
        self.done += u64::from(is_one);
        is_one
    }

    /// Returns how many items still fit.
    #[inline]
    pub fn room(&self) -> usize {
        self.capacity.saturating_sub(self.queue.len())
    }

    /// Returns the waiters for an item, for room, or for the end of the work.
    pub fn waiters(&mut self, wait_for: WaitFor) -> &mut Tickets {
        match wait_for {
            WaitFor::Item => &mut self.getters,
            WaitFor::Room => &mut self.putters,
            WaitFor::Done => &mut self.joiners,
        }
    }

    /// Returns a ticket that was never given out before, not even before a fork.
    pub fn next_ticket(&mut self) -> Ticket {
        self.last_ticket += 1;
        self.last_ticket
    }

    /// Whether there is a waiter to notify or to wake.
    #[inline]
    pub fn has_waiters(&self) -> bool {
        let is_idle = self.getters.is_idle() && self.putters.is_idle() && self.joiners.is_idle();
        !is_idle || !self.wakes.is_empty()
    }

    /// Notifies getters for the available items and putters for the available room, all of them after the shutdown; and
    /// joiners once each item is done.
    /// Returns the waiters to wake once the lock is released.
    #[inline]
    pub fn notify(&mut self) -> Wakes<WaitFor> {
        let offer = |there| if self.closed { Offer::END } else { Offer::of(there) };
        let (items, room) = (offer(self.queue.len()), offer(self.room()));
        self.getters.notify(items, WaitFor::Item, &mut self.wakes);
        self.putters.notify(room, WaitFor::Room, &mut self.wakes);
        if self.unfinished() == 0 {
            self.joiners.notify(Offer::END, WaitFor::Done, &mut self.wakes);
        }
        std::mem::take(&mut self.wakes)
    }

    /// Notifies putters of an item with this hash: their items may be duplicates now.
    #[inline]
    pub fn notify_duplicates(&mut self, hash: u64) {
        if !self.putters.is_idle() {
            self.putters.notify_tagged(hash, WaitFor::Room, &mut self.wakes);
        }
    }
}

/// A taken item, with its key: dropping a key may run foreign code, so it is dropped after the lock is released
/// (invariant 1).
pub struct TakenItem<'py> {
    pub item: Bound<'py, PyAny>,
    _key: Option<Py<PyAny>>,
}

impl KnownItem {
    /// Returns a second reference to the item.
    pub fn shared(&self, py: Python<'_>) -> Py<PyAny> {
        self.item.as_ref().unwrap_or(&self.key).clone_ref(py)
    }
}

/// Reads the arguments `in_flight` and `ttl`.
pub fn after_take(in_flight: &str, ttl: Option<f64>) -> PyResult<AfterTake> {
    let wait = match ttl {
        None => Duration::ZERO,
        Some(seconds) => arguments::duration("ttl", seconds)?,
    };
    match (in_flight, ttl) {
        ("forget", None) => Ok(AfterTake::Forget),
        ("forget", Some(ttl)) => {
            Err(errors::bad_value(format!("ttl={ttl} needs in_flight='ttl' or 'ack'; 'forget' forgets at once")))
        }
        ("ack", _) => Ok(AfterTake::Track(wait)),
        ("ttl", Some(_)) => Ok(AfterTake::Remember(wait)),
        ("ttl", None) => Err(errors::bad_value("in_flight='ttl' needs ttl=, in seconds")),
        (other, _) => Err(errors::bad_value(format!("in_flight must be 'forget', 'ack' or 'ttl', got {other:?}"))),
    }
}
