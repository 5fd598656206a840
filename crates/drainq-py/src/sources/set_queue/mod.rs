//! `drainq.SetQueue`: the core's set queue as a Python object, with waiting.
//!
//! # Invariants
//! 1. Foreign code (`key`, `__hash__`, `__eq__`, `__del__`, an item's iterator, a clock) runs with
//!    the lock not held. So no call can deadlock, and one that raises has changed nothing.
//! 2. A lookup and the change that follows from it happen under one hold of the lock.
//! 3. Nothing that is done under the lock waits, or drops a Python object.
//! 4. A waiter that was woken and takes nothing wakes the next one.
//! 5. The lock is taken with the GIL held, and given back before that is given up. So a fork, which
//!    Python makes with the GIL held, finds it free and what it guards whole; in the child the state is
//!    replaced, and the parent's is forgotten: its items are not the child's to drop.

mod inside;
mod stats;

pub use stats::SetQueueStats;

use crate::fork::{self, Renew};
use crate::{deadline::Deadline, errors, gil};
use drainq_core::clock::SystemClock;
use drainq_core::sources::set_queue::{AfterTake, Poll, State as Where};
use drainq_core::sync::Mutex;
use inside::{Line, State, after_take};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList, PyString, PyType};
use pyo3::{PyTraverseError, PyVisit};
use std::sync::{Arc, Weak};

/// A FIFO queue that refuses what it already holds; threads share it.
///
/// A duplicate is refused and the waiting item keeps its place, so a source that is asked again
/// and again can neither fill the queue with copies nor push an item back to the end of the line.
///
/// Args:
///     capacity: most items to hold; ``None`` is unbounded.
///     key: maps an item to what it is known by, such as ``lambda row: row["id"]``; ``None``: itself.
///     in_flight: what becomes of a taken item's key. ``"forget"``: an equal item may enter at
///         once. ``"ack"``: it stays known until ``done``. ``"ttl"``: it stays known for ``ttl`` seconds.
///     ttl: seconds; with ``"ack"`` how long a key stays known after its ``done``.
///     clock: an object with ``now() -> float`` in seconds, for ``ttl``; ``None`` is the machine's.
/// Raises:
///     ValueError: ``capacity`` is below 1, ``in_flight`` is none of the three, ``ttl`` does not fit.
///
/// Example:
///     >>> from drainq import SetQueue
///     >>> queue = SetQueue()
///     >>> [queue.put(word) for word in ("a", "b", "a")]
///     [True, True, False]
///     >>> queue.get_many(10)
///     ['a', 'b']
///
/// Source: ``ConcurrentSetQueue`` in "Fast Critical Path with Async Queueing"; ``done`` follows
/// client-go's work queue.
#[pyclass(frozen, module = "drainq", weakref)]
pub struct SetQueue {
    capacity: Option<usize>,
    key: Option<Py<PyAny>>,
    after_take: AfterTake,
    clock: Option<Py<PyAny>>,
    system_clock: SystemClock,
    state: Arc<Mutex<State>>,
}

#[pymethods]
impl SetQueue {
    #[new]
    #[pyo3(signature = (capacity=None, key=None, *, in_flight="forget", ttl=None, clock=None))]
    fn new(
        py: Python<'_>,
        capacity: Option<isize>,
        key: Option<Py<PyAny>>,
        in_flight: &str,
        ttl: Option<f64>,
        clock: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        if let Some(capacity) = capacity.filter(|capacity| *capacity < 1) {
            return Err(errors::bad_value(format!("capacity must be None (unbounded) or >= 1, got {capacity}")));
        }
        if let Some(key) = key.as_ref().filter(|key| !key.bind(py).is_callable()) {
            return Err(errors::bad_type(format!(
                "key must be a callable that takes an item, got {}",
                gil::repr(key.bind(py))?
            )));
        }
        let after_take = after_take(in_flight, ttl)?;
        let state = Arc::new(Mutex::new(State::new(after_take)));
        fork::register(Arc::downgrade(&state) as Weak<dyn Renew>);
        Ok(Self {
            capacity: capacity.map(isize::unsigned_abs),
            key,
            after_take,
            clock,
            system_clock: SystemClock::new(),
            state,
        })
    }

    /// Put an item at the end, waiting for room if there is none.
    ///
    /// The wait releases the GIL and ends early on Ctrl-C; the item is then not in the queue.
    ///
    /// Args:
    ///     item: any object with a hashable key.
    ///     block: whether to wait for room.
    ///     timeout: seconds to wait for room; ``None`` waits for ever.
    /// Returns:
    ///     True if the item went in; False if an equal one is known: that one keeps its place.
    /// Raises:
    ///     queue.Full: no room, or none in time.
    ///     TypeError: the key is not hashable; nothing has changed.
    ///     ShutDown: the queue is shut down.
    #[pyo3(signature = (item, block=true, timeout=None))]
    fn put<'py>(&self, item: Bound<'py, PyAny>, block: bool, timeout: Option<f64>) -> PyResult<bool> {
        let py = item.py();
        let deadline = Deadline::after("timeout", timeout)?;
        self.put_until(py, item, block.then_some(deadline))?.ok_or_else(|| {
            let capacity = self.capacity.unwrap_or(usize::MAX);
            errors::FULL.error(py, format!("the queue holds {capacity} items, its capacity"))
        })
    }

    /// Put an item if there is room: ``put(item, block=False)``.
    fn put_nowait<'py>(&self, item: Bound<'py, PyAny>) -> PyResult<bool> {
        self.put(item, false, None)
    }

    /// Put items in their order; duplicates are left out.
    ///
    /// Args:
    ///     items: an iterable of items.
    ///     block: whether to wait for room.
    ///     timeout: seconds to wait in all; ``None`` waits for ever.
    /// Returns:
    ///     How many went in. When there was no room, or none in time, later items were not looked at.
    /// Raises:
    ///     ShutDown: the queue is shut down. Of this and any other exception (Ctrl-C, one from the
    ///         iterable or a key) the attribute ``accepted`` says how many items had gone in before.
    #[pyo3(signature = (items, block=true, timeout=None))]
    fn put_many(&self, items: &Bound<'_, PyAny>, block: bool, timeout: Option<f64>) -> PyResult<usize> {
        let deadline = block.then_some(Deadline::after("timeout", timeout)?);
        let mut added = 0;
        let mut put_all = || {
            for item in gil::items(items)? {
                match self.put_until(items.py(), item?, deadline)? {
                    Some(went_in) => added += usize::from(went_in),
                    None => break,
                }
            }
            Ok(())
        };
        match put_all() {
            Ok(()) => Ok(added),
            Err(error) => Err(errors::after_accepting(items.py(), error, added)),
        }
    }

    /// Take the first item, waiting for one if there is none.
    ///
    /// The wait releases the GIL and ends early on Ctrl-C; no item is lost by it.
    ///
    /// Args:
    ///     block: whether to wait for an item.
    ///     timeout: seconds to wait; ``None`` waits for ever.
    /// Raises:
    ///     queue.Empty: no item, or none in time.
    ///     ShutDown: the queue is shut down and empty.
    #[pyo3(signature = (block=true, timeout=None))]
    fn get<'py>(&self, py: Python<'py>, block: bool, timeout: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        let deadline = Deadline::after("timeout", timeout)?;
        let now = self.now(py)?;
        let mut last_try = !block;
        loop {
            let mut state = self.state.lock();
            if let Some(taken) = state.take(py, now) {
                drop(state);
                return Ok(taken.item);
            }
            if state.closed {
                drop(state);
                return Err(errors::SHUT_DOWN.error(py, "the queue is shut down and empty"));
            }
            if last_try {
                drop(state);
                return Err(errors::EMPTY.error(py, "no item is waiting"));
            }
            match self.wait(py, state, Line::Getters, 0, deadline) {
                Ok(woken) => last_try = !woken,
                Err(error) => {
                    self.hand_on(Line::Getters);
                    return Err(error);
                }
            }
        }
    }

    /// Take the first item if there is one: ``get(block=False)``.
    fn get_nowait<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, false, None)
    }

    /// Take up to ``n`` items, first to last, without waiting; perhaps an empty list.
    ///
    /// Raises:
    ///     ValueError: ``n`` is negative.
    fn get_many<'py>(&self, py: Python<'py>, n: isize) -> PyResult<Bound<'py, PyList>> {
        let n = usize::try_from(n).map_err(|_| errors::bad_value(format!("n must be >= 0, got {n}")))?;
        let now = self.now(py)?;
        let mut state = self.state.lock();
        let n = n.min(state.queue.len());
        let taken: Vec<_> = (0..n).map_while(|_| state.take(py, now)).collect();
        drop(state);
        PyList::new(py, taken.into_iter().map(|taken| taken.item))
    }

    /// Say that items taken from the queue have been dealt with (``in_flight="ack"``).
    ///
    /// Their keys are forgotten: after ``ttl`` seconds if one was given, and not before a poll that
    /// was under way ends (see ``begin_poll``).
    ///
    /// Args:
    ///     items: an iterable of items.
    /// Returns:
    ///     How many of them were in flight.
    fn done(&self, items: &Bound<'_, PyAny>) -> PyResult<usize> {
        if items.is_instance_of::<PyString>() || items.is_instance_of::<PyBytes>() {
            return Err(errors::bad_type(format!(
                "done takes an iterable of items, such as [item], got {}",
                gil::repr(items)?
            )));
        }
        let now = self.now(items.py())?;
        let mut were = 0;
        for item in gil::items(items)? {
            let mut identity = self.identity(&item?)?;
            let (mut state, found) = self.locate(&mut identity)?;
            let Some((place, _)) = found else { continue };
            let answer = state.queue.done(place, now);
            drop(state);
            were += usize::from(answer.is_ok());
        }
        Ok(were)
    }

    /// Say that a poll of the source begins; return a token for ``end_poll``.
    ///
    /// What the source is about to return may have been read before an item in flight was done. Until the poll ends,
    /// an item that is done stays known, so the stale copy is refused.
    fn begin_poll(&self) -> u64 {
        self.state.lock().queue.begin_poll().0
    }

    /// Say that a poll has ended and what it brought has been put.
    ///
    /// Returns:
    ///     False if no such poll is under way.
    fn end_poll(&self, py: Python<'_>, token: u64) -> PyResult<bool> {
        let was_under_way = self.state.lock().queue.end_poll(Poll(token));
        self.forget_due(py)?;
        Ok(was_under_way)
    }

    /// Whether an equal item would be refused: it waits, is in flight, or is remembered.
    fn knows(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        let mut identity = self.identity(item)?;
        self.forget_due(item.py())?;
        let (state, found) = self.locate(&mut identity)?;
        drop(state);
        Ok(found.is_some())
    }

    /// Take out everything that waits, first to last; what is in flight stays known.
    fn clear<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut state = self.state.lock();
        let entries = state.queue.clear();
        let freed = entries.len();
        state.putters.wake(freed);
        drop(state);
        PyList::new(py, entries.into_iter().map(|entry| entry.item.unwrap_or(entry.key)))
    }

    /// End the queue: puts raise ``ShutDown``, gets go on until it is empty and raise then.
    ///
    /// Args:
    ///     immediate: forget what still waits.
    #[pyo3(signature = (immediate=false))]
    fn shutdown(&self, immediate: bool) {
        let mut state = self.state.lock();
        state.closed = true;
        let discarded = if immediate { state.queue.clear() } else { Vec::new() };
        state.getters.wake_all();
        state.putters.wake_all();
        drop(state);
        drop(discarded);
    }

    /// Items waiting: the same as ``len(queue)``.
    fn qsize(&self) -> usize {
        self.state.lock().queue.len()
    }

    /// Whether nothing waits.
    fn empty(&self) -> bool {
        self.qsize() == 0
    }

    /// Whether there is no room.
    fn full(&self) -> bool {
        self.remaining_capacity() == Some(0)
    }

    /// Items that still fit; None if the queue is unbounded.
    fn remaining_capacity(&self) -> Option<usize> {
        self.capacity.map(|capacity| capacity.saturating_sub(self.qsize()))
    }

    /// A snapshot of the counters.
    fn stats(&self) -> SetQueueStats {
        let state = self.state.lock();
        SetQueueStats {
            size: state.queue.len(),
            in_flight: state.queue.in_flight(),
            put: state.put,
            got: state.got,
            duplicates: state.duplicates,
            blocked_getters: state.getters.len(),
            blocked_putters: state.putters.len(),
        }
    }

    /// Most items to hold; None is unbounded.
    #[getter]
    fn capacity(&self) -> Option<usize> {
        self.capacity
    }

    /// Items taken and not yet done.
    #[getter]
    fn in_flight(&self) -> usize {
        self.state.lock().queue.in_flight()
    }

    fn __len__(&self) -> usize {
        self.qsize()
    }

    /// Whether an equal item waits in the queue.
    fn __contains__(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        let mut identity = self.identity(item)?;
        let (state, found) = self.locate(&mut identity)?;
        drop(state);
        Ok(matches!(found, Some((_, Where::Waiting))))
    }

    /// A snapshot of what waits, first to last.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let state = self.state.lock();
        let items: Vec<_> = state.queue.iter().map(|entry| entry.shared(py)).collect();
        drop(state);
        PyList::new(py, items)?.try_iter()
    }

    fn __repr__(&self) -> String {
        let capacity = self.capacity.map_or("None".to_owned(), |capacity| capacity.to_string());
        format!("<SetQueue of {} items, capacity {capacity}>", self.qsize())
    }

    /// ``SetQueue[T]``, for annotations.
    #[classmethod]
    #[pyo3(signature = (item, /))]
    fn __class_getitem__<'py>(class: &Bound<'py, PyType>, item: &Bound<'py, PyAny>) -> Bound<'py, PyType> {
        let _: &Bound<'_, PyAny> = item; // what the items are is for type checkers alone
        class.clone()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.key)?;
        visit.call(&self.clock)?;
        let state = self.state.lock();
        for entry in state.queue.known() {
            visit.call(&entry.key)?;
            visit.call(&entry.item)?;
        }
        Ok(())
    }

    fn __clear__(&self) {
        let forgotten = self.state.lock().queue.reset();
        drop(forgotten);
    }
}
