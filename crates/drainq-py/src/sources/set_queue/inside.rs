//! What a set queue holds, and how its calls find, put and wait; the invariants are in `mod.rs`.

use super::super::identity::Identity;
use super::SetQueue;
use crate::fork::Renew;
use crate::{deadline, deadline::Deadline, errors, gil};
use drainq_core::clock::Clock;
use drainq_core::sources::set_queue::{AfterTake, Lookup, Place, SetQueue as Core, State as Where};
use drainq_core::sources::wait_list::{Left, WaitList};
use drainq_core::sync::{Mutex, MutexGuard, Parker};
use pyo3::prelude::*;
use std::time::Duration;

/// What the queue keeps of an item: `item` is `None` where the item is its own key.
pub struct Entry {
    pub key: Py<PyAny>,
    pub item: Option<Py<PyAny>>,
}

pub struct State {
    pub queue: Core<Entry>,
    pub getters: WaitList,
    pub putters: WaitList,
    pub closed: bool,
    pub put: u64,
    pub got: u64,
    pub duplicates: u64,
}

/// The locked state, and the place and state of the entry that was looked for.
pub type Located<'a> = (MutexGuard<'a, State>, Option<(Place, Where)>);

/// Which of the two lines to wait in.
#[derive(Clone, Copy)]
pub enum Line {
    Getters,
    Putters,
}

impl SetQueue {
    #[inline]
    pub fn identity<'py>(&self, item: &Bound<'py, PyAny>) -> PyResult<Identity<'py>> {
        Identity::of(match &self.key {
            None => item.clone(),
            Some(key) => gil::call(key.bind(item.py()), [item])?,
        })
    }

    /// Finds a key: the lock, and where the key is. Holds while the lock is held.
    #[inline]
    pub fn locate<'a>(&'a self, identity: &mut Identity<'_>) -> PyResult<Located<'a>> {
        loop {
            let state = self.state.lock();
            let found = match state.queue.find(identity.hash(), |entry| identity.same(&entry.key)) {
                Lookup::Absent => None,
                Lookup::Known(place, state) => Some((place, state)),
                Lookup::Unsure(entry) => {
                    let known = entry.key.clone_ref(identity.py()).into_bound(identity.py());
                    drop(state);
                    identity.ask(known)?;
                    continue;
                }
            };
            return Ok((state, found));
        }
    }

    /// Puts an item: whether it went in, or `None` if there was no room. No deadline: no waiting.
    #[inline]
    pub fn put_until(
        &self,
        py: Python<'_>,
        item: Bound<'_, PyAny>,
        deadline: Option<Deadline>,
    ) -> PyResult<Option<bool>> {
        let mut identity = self.identity(&item)?;
        let (mut last_try, mut waited) = (false, false);
        let refused = loop {
            self.forget_due(py)?;
            let (mut state, found) = match self.locate(&mut identity) {
                Ok(located) => located,
                Err(error) => break Err(error),
            };
            if state.closed {
                drop(state);
                break Err(errors::SHUT_DOWN.error(py, "the queue is shut down"));
            }
            if found.is_some() {
                state.duplicates += 1;
                break Ok(Some(false));
            }
            if self.capacity.is_none_or(|capacity| state.queue.len() < capacity) {
                let item = self.key.is_some().then(|| item.unbind());
                state.queue.push(identity.hash(), Entry { key: identity.key(), item });
                state.put += 1;
                state.getters.wake(1);
                state.putters.wake_tagged(identity.hash()); // perhaps duplicates of this one by now
                return Ok(Some(true));
            }
            let Some(deadline) = deadline.filter(|_| !last_try) else { break Ok(None) };
            waited = true;
            match self.wait(py, state, Line::Putters, identity.hash(), deadline) {
                Ok(woken) => last_try = !woken,
                Err(error) => break Err(error),
            }
        };
        if waited {
            self.hand_on(Line::Putters);
        }
        refused
    }

    /// Waits in a line for a wake-up; false if the time ran out.
    pub fn wait(
        &self,
        py: Python<'_>,
        mut state: MutexGuard<'_, State>,
        line: Line,
        tag: u64,
        deadline: Deadline,
    ) -> PyResult<bool> {
        let parker = Parker::new();
        let ticket = state.line(line).join(&parker, tag);
        drop(state);
        let sleeper = &ticket;
        let woken = deadline::wait(py, deadline, move |slice| {
            parker.park_timeout(slice);
            sleeper.is_woken().then_some(())
        });
        let left = self.state.lock().line(line).leave(&ticket);
        Ok(woken?.is_some() || left == Left::Woken)
    }

    /// Wakes the next in line if there is something to wake it for (invariant 4).
    pub fn hand_on(&self, line: Line) {
        let mut state = self.state.lock();
        let something = match line {
            Line::Getters => !state.queue.is_empty(),
            Line::Putters => self.capacity.is_none_or(|capacity| state.queue.len() < capacity),
        };
        if something {
            state.line(line).wake(1);
        }
    }

    /// Forgets the keys whose time is up.
    #[inline]
    pub fn forget_due(&self, py: Python<'_>) -> PyResult<()> {
        if self.after_take == AfterTake::Forget || !self.state.lock().queue.remembers() {
            return Ok(());
        }
        let now = self.now(py)?;
        let mut forgotten = Vec::new();
        self.state.lock().queue.forget_due(now, &mut forgotten);
        Ok(())
    }

    /// The time, where it matters.
    #[inline]
    pub fn now(&self, py: Python<'_>) -> PyResult<Duration> {
        match (self.after_take, &self.clock) {
            (AfterTake::Forget | AfterTake::Track(Duration::ZERO), _) => Ok(Duration::ZERO),
            (_, None) => Ok(self.system_clock.now()),
            (_, Some(clock)) => {
                let seconds: f64 = clock.bind(py).call_method0("now")?.extract()?;
                Duration::try_from_secs_f64(seconds)
                    .map_err(|_| errors::bad_value(format!("clock.now() must be seconds >= 0, got {seconds}")))
            }
        }
    }
}

impl Renew for Mutex<State> {
    fn renew_in_child(&self, _py: Python<'_>) {
        // Free, for it is taken with the GIL alone (invariant 5).
        let mut state = self.lock();
        std::mem::forget(state.queue.reset());
        std::mem::forget(std::mem::take(&mut state.getters));
        std::mem::forget(std::mem::take(&mut state.putters));
        (state.put, state.got, state.duplicates) = (0, 0, 0);
    }
}

impl State {
    pub fn new(after_take: AfterTake) -> Self {
        Self {
            queue: Core::new(after_take),
            getters: WaitList::default(),
            putters: WaitList::default(),
            closed: false,
            put: 0,
            got: 0,
            duplicates: 0,
        }
    }

    #[inline]
    pub fn take<'py>(&mut self, py: Python<'py>, now: Duration) -> Option<Taken<'py>> {
        let (item, key) = self.queue.take(
            now,
            |entry| (entry.item.take().unwrap_or_else(|| entry.key.clone_ref(py)), None),
            |entry| match entry.item {
                None => (entry.key, None),
                Some(item) => (item, Some(entry.key)),
            },
        )?;
        self.got += 1;
        self.putters.wake(1);
        Some(Taken { item: item.into_bound(py), _key: key })
    }

    pub fn line(&mut self, line: Line) -> &mut WaitList {
        match line {
            Line::Getters => &mut self.getters,
            Line::Putters => &mut self.putters,
        }
    }
}

/// A taken item. Its key goes with it: dropping a key may run foreign code (invariant 1).
pub struct Taken<'py> {
    pub item: Bound<'py, PyAny>,
    _key: Option<Py<PyAny>>,
}

impl Entry {
    pub fn shared(&self, py: Python<'_>) -> Py<PyAny> {
        self.item.as_ref().unwrap_or(&self.key).clone_ref(py)
    }
}

pub fn after_take(in_flight: &str, ttl: Option<f64>) -> PyResult<AfterTake> {
    let wait = match ttl {
        None => Duration::ZERO,
        Some(seconds) => Duration::try_from_secs_f64(seconds)
            .map_err(|_| errors::bad_value(format!("ttl must be a number of seconds >= 0, got {seconds}")))?,
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
