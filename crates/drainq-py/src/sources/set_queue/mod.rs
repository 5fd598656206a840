//! `drainq.SetQueue`: the core's set queue as a Python object, with waiting.
//!
//! | file | verb |
//! | --- | --- |
//! | `put.rs`, `get.rs`, `done.rs` | put, take, acknowledge items, from threads and coroutines |
//! | `contents.rs` | look up, list, clear |
//! | `metric_samples.rs` | the metrics |
//! | `waiting.rs` | wait for items or for room |
//! | `state.rs` | the state that the lock guards |
//! | here | find an item's key; shut down, count |
//!
//! # Invariants
//! 1. Foreign code (`key`, `__hash__`, `__eq__`, `__del__`, an item's iterator, a clock) runs without the lock. So no
//!    call can deadlock, and an item for which a call raises is unchanged.
//! 2. A lookup and the change that follows from it happen under one hold of the lock.
//! 3. No code under the lock waits, or drops a Python object.
//! 4. A call that waited leaves the waiters when it ends, and a token that it did not use goes to the next.
//! 5. The lock is taken with the GIL held, and released before the GIL is; only `metric_samples.rs` takes it without
//!    the GIL, between forks. So a fork, which Python makes with the GIL held, finds the lock free and its data
//!    consistent. The child replaces the state and leaks the parent's, whose items it must not drop.

mod contents;
mod done;
mod get;
mod metric_samples;
mod put;
mod state;
mod waiting;

use crate::fork::{self, Renew};
use crate::monitoring::object_registry::Observed;
use crate::sources::identity::{Identity, Located};
use crate::waiting::event_loops::EventLoops;
use crate::waiting::queue::shared_methods;
use crate::{arguments, errors, gil, pickling, python_calls, statistics};
use drainq_core::clock::{Clock, SystemClock};
use drainq_core::sources::set_queue::AfterTake;
use drainq_core::sync::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyType;
use pyo3::{PyTraverseError, PyVisit};
use state::{Guarded, after_take};
use std::sync::{Arc, Weak};
use std::time::Duration;
use waiting::release;

/// A FIFO queue that refuses an item that it already holds. Threads and asyncio tasks share it.
///
/// A duplicate is refused and the waiting item keeps its place, so a source that is polled
/// repeatedly neither fills the queue with copies nor moves an item back to its end.
///
/// Args:
///     capacity: most items to hold; ``None`` is unbounded.
///     key: maps an item to its identity, such as ``lambda row: row["id"]``; ``None``: itself.
///     in_flight: what becomes of a taken item's key. ``"forget"``: an equal item may enter at
///         once. ``"ack"``: it stays known until ``done``. ``"ttl"``: it stays known for ``ttl`` seconds.
///     ttl: seconds; with ``"ack"`` how long a key stays known after its ``done``.
///     clock: an object with ``now() -> float`` in seconds, for ``ttl``; ``None`` is the machine's.
/// Raises:
///     ValueError: ``capacity`` is below 1, ``in_flight`` is unknown, or ``ttl`` is negative, given with
///     ``"forget"``, or missing with ``"ttl"``.
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
    key: Option<Py<PyAny>>,
    after_take: AfterTake,
    clock: Option<Py<PyAny>>,
    system_clock: SystemClock,
    state: Arc<Mutex<Guarded>>,
    event_loops: Arc<EventLoops>,
}

impl SetQueue {
    /// Returns the object that the metrics endpoint reads.
    pub fn observed(&self) -> Weak<dyn Observed> {
        Arc::downgrade(&self.state) as Weak<dyn Observed>
    }

    #[inline]
    fn identity(&self, item: &Bound<'_, PyAny>) -> PyResult<Identity> {
        Identity::of(item, self.key.as_ref())
    }

    /// Locks the queue and finds a key. The answer holds while the lock is held.
    #[inline]
    fn locate<'a>(&'a self, py: Python<'_>, identity: &mut Identity) -> PyResult<Located<'a, Guarded>> {
        identity.locate(py, &self.state, |state| state.queue.table())
    }

    /// Forgets the keys whose time is up.
    #[inline]
    fn forget_due(&self, py: Python<'_>) -> PyResult<()> {
        if self.after_take == AfterTake::Forget || !self.state.lock().queue.remembers() {
            return Ok(());
        }
        let now = self.now(py)?;
        let mut forgotten = Vec::new();
        self.state.lock().queue.forget_due(now, &mut forgotten);
        Ok(())
    }

    /// Reads the clock, if the time matters.
    #[inline]
    fn now(&self, py: Python<'_>) -> PyResult<Duration> {
        match (self.after_take, &self.clock) {
            (AfterTake::Forget | AfterTake::Track(Duration::ZERO), _) => Ok(Duration::ZERO),
            (_, None) => Ok(self.system_clock.now()),
            (_, Some(clock)) => {
                let seconds: f64 = gil::call_method(clock.bind(py), "now", [])?.extract()?;
                Duration::try_from_secs_f64(seconds)
                    .map_err(|_| errors::bad_value(format!("clock.now() must be seconds >= 0, got {seconds}")))
            }
        }
    }
}

shared_methods!(SetQueue);

#[pymethods]
impl SetQueue {
    #[new]
    #[pyo3(
        signature = (capacity=None, key=None, *, in_flight="forget".to_owned(), ttl=None, clock=None),
        text_signature = "(capacity=None, key=None, *, in_flight='forget', ttl=None, clock=None)"
    )]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::capacity)] capacity: Option<i64>,
        key: Option<Py<PyAny>>,
        #[pyo3(from_py_with = arguments::in_flight)] in_flight: String,
        #[pyo3(from_py_with = arguments::ttl)] ttl: Option<f64>,
        clock: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let capacity = arguments::capacity_in_items(capacity)?;
        if let Some(key) = &key {
            python_calls::check_callable("key", key.bind(py), "item")?;
        }
        if let Some(clock) = &clock {
            gil::call(&py.import("drainq.arguments")?.getattr("check_clock_if_given")?, [clock.bind(py)])?;
        }
        let after_take = after_take(&in_flight, ttl)?;
        let state = Arc::new(Mutex::new(Guarded::new(after_take, capacity)));
        fork::register(Arc::downgrade(&state) as Weak<dyn Renew>);
        Ok(Self { key, after_take, clock, system_clock: SystemClock::new(), state, event_loops: Arc::default() })
    }

    /// End the queue: puts raise ``ShutDown``, gets continue until it is empty, and then raise it too.
    ///
    /// ``with`` and ``async with`` shut it down at the end of their block.
    ///
    /// Args:
    ///     immediate: forget what still waits.
    #[pyo3(signature = (immediate=false))]
    fn shutdown(&self, _py: Python<'_>, #[pyo3(from_py_with = arguments::immediate)] immediate: bool) {
        let mut state = self.state.lock();
        state.closed = true;
        let discarded = if immediate { state.queue.clear() } else { Vec::new() };
        release(&self.state, state);
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
        let state = self.state.lock();
        arguments::capacity_out(state.capacity).map(|_| state.room())
    }

    /// Return the counters: a :class:`SetQueueStats`.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let counters = {
            let state = self.state.lock();
            let (waiting, taken) = (state.queue.len(), state.queue.in_flight());
            let (getters, putters) = (state.getters.blocked(), state.putters.blocked());
            (waiting, taken, state.put, state.got, state.duplicates, getters, putters)
        };
        statistics::SET_QUEUE.call(py, counters)
    }

    /// Most items to hold; None is unbounded.
    #[getter]
    fn capacity(&self) -> Option<usize> {
        arguments::capacity_out(self.state.lock().capacity)
    }

    /// Items taken and not yet done.
    #[getter]
    fn in_flight(&self) -> usize {
        self.state.lock().queue.in_flight()
    }

    fn __len__(&self) -> usize {
        self.qsize()
    }

    /// Whether it was shut down.
    #[getter]
    fn is_shutdown(&self) -> bool {
        self.state.lock().closed
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        pickling::refuse(
            slf,
            "its items and waiters belong to this process",
            "its capacity, key and in_flight, and make a SetQueue where it is used",
        )
    }

    fn __repr__(&self) -> String {
        let capacity = self.capacity().map_or("None".to_owned(), |capacity| capacity.to_string());
        format!("<SetQueue of {} items, capacity {capacity}>", self.qsize())
    }

    /// ``SetQueue[T]``, for annotations.
    #[classmethod]
    #[pyo3(signature = (item, /))]
    fn __class_getitem__<'py>(class: &Bound<'py, PyType>, item: &Bound<'py, PyAny>) -> Bound<'py, PyType> {
        let _: &Bound<'_, PyAny> = item; // only type checkers use the type of the items
        class.clone()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.key)?;
        visit.call(&self.clock)?;
        if !fork::is_renewed() {
            return Ok(());
        }
        self.event_loops.traverse(&visit)?;
        let state = self.state.lock();
        for entry in state.queue.table().known() {
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
