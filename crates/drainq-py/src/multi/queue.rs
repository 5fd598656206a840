//! `MultiQueue`: the get side of many sub-queues.

use super::awaitable::{Attempt, QueueAwaitable};
use super::blocking::{Attempt as Try, Patience, until};
use super::handle::{self, Core, Label};
use super::loops::Sleepers;
use super::stats::{MultiQueueStats, SubQueueStats};
use super::sub_queue::SubQueue;
use super::take::Selection;
use super::values;
use crate::{errors, gil};
use drainq_core::clock::CoarseClock;
use drainq_core::multi::{Gathered, Nothing, Settings, ShutdownMode};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyList};
use std::sync::Arc;

/// Many keyed queues behind one blocking ``get``.
///
/// A get takes from the sub-queues of the lowest priority number first, and among those of one
/// priority in turn, over fixed places in the order they were added. Sub-queues can be added,
/// removed, disabled, enabled and re-prioritised at any time. A get costs the same among 10,000
/// idle sub-queues as among one. Threads and asyncio tasks may use one object together.
///
/// ``key in queue``, ``queue[key]``, ``len(queue)`` and ``list(queue)`` speak of the sub-queues,
/// as a dict of them would. ``async for item in queue`` gets items until shutdown.
///
/// Args:
///     selection: ``"priority"`` serves the first non-empty priority alone, its sub-queues
///         round-robin, ``weight`` turns in a row each. ``"weighted"`` serves all in one ring,
///         shares by ``weight``; priority only orders a round. Or an object with
///         ``select(groups)``: it gets a list by priority of lists of :class:`SubQueue` in order
///         of turn, none of them empty or disabled, and returns one of these sub-queues.
/// Raises:
///     ValueError: ``selection`` is another string.
///     TypeError: ``selection`` is an object without ``select``.
///
/// Example:
///     >>> from drainq import MultiQueue
///     >>> queue = MultiQueue()
///     >>> urgent, mail, news = (queue.add_sub_queue(k, p) for k, p in [("u", 0), ("m", 1), ("n", 1)])
///     >>> mail.put_many(["m1", "m2"]), news.put_many(["n1"]), urgent.put_many(["u1"])
///     (2, 1, 1)
///     >>> [queue.get() for _ in range(4)]
///     ['u1', 'm1', 'n1', 'm2']
///
/// Source: linked-blocking-multi-queue; ``queue.Queue`` for the signatures.
#[pyclass(frozen, weakref, generic, module = "drainq")]
pub struct MultiQueue {
    core: Core,
    sub_queues: Py<PyDict>,
    selection: Selection,
    pub(super) sleepers: Arc<Sleepers>,
}

impl MultiQueue {
    #[inline]
    pub(super) fn core(&self) -> &Core {
        &self.core
    }

    /// Takes an item, or says why not.
    #[inline]
    pub(super) fn take(&self, py: Python<'_>) -> PyResult<Result<Py<PyAny>, Nothing>> {
        self.selection.take(py, &self.core)
    }

    /// Takes an item; `None` if there is none now.
    #[inline]
    pub(super) fn take_or_wait(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.or_wait(py, self.take(py)?)
    }

    /// `None` for nothing now, an exception for nothing ever.
    fn or_wait<R>(&self, py: Python<'_>, taken: Result<R, Nothing>) -> PyResult<Option<R>> {
        match taken {
            Ok(taken) => Ok(Some(taken)),
            Err(Nothing::Empty) => Ok(None),
            Err(Nothing::ShutDown) => Err(shut_down(py)),
        }
    }

    #[cold]
    fn get_slowly(&self, py: Python<'_>, patience: Patience) -> PyResult<Py<PyAny>> {
        until(py, self.core.getter(), patience, |_, _| self.take_or_wait(py))?.ok_or_else(|| empty(py))
    }
}

#[cold]
fn empty(py: Python<'_>) -> PyErr {
    errors::EMPTY.error(py, "no enabled sub-queue holds an item")
}

#[cold]
fn shut_down(py: Python<'_>) -> PyErr {
    errors::SHUT_DOWN.error(py, "the multi-queue was shut down and nothing is left to get")
}

#[pymethods]
impl MultiQueue {
    #[new]
    #[pyo3(signature = (selection=None), text_signature = "(selection='priority')")]
    fn new(py: Python<'_>, selection: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let selection = selection.map_or(Ok(Selection::default()), Selection::new)?;
        let core = Core::new(selection.order(), CoarseClock::default());
        handle::restart_in_children(&core);
        Ok(Self { core, sub_queues: PyDict::new(py).unbind(), selection, sleepers: Arc::default() })
    }

    /// Add a sub-queue, at the place after the last one of its priority.
    ///
    /// Args:
    ///     key: any hashable object, None included.
    ///     priority: lower is served first; negative numbers are allowed.
    ///     capacity: items at most, at least 1; None is unbounded.
    ///     weight: turns in a row, at least 1.
    ///     enabled: False to start disabled, for the reason ``""``.
    ///     exist_ok: True to return the sub-queue that has this key already, unchanged.
    /// Returns:
    ///     The sub-queue.
    /// Raises:
    ///     KeyError: there is one of this key, and not ``exist_ok``.
    ///     ValueError: ``capacity`` or ``weight`` is below 1.
    ///     ShutDown: the multi-queue was shut down.
    ///
    /// Example:
    ///     >>> from drainq import MultiQueue
    ///     >>> queue = MultiQueue()
    ///     >>> queue.add_sub_queue("mail", priority=1, capacity=100)
    ///     <SubQueue 'mail' priority=1 weight=1 size=0 capacity=100 enabled>
    ///
    /// Source: ``addSubQueue``; a duplicate key is an error here.
    #[pyo3(signature = (key, priority=0, capacity=None, *, weight=1, enabled=true, exist_ok=false))]
    #[allow(clippy::too_many_arguments)]
    fn add_sub_queue<'py>(
        &self,
        py: Python<'py>,
        key: Bound<'py, PyAny>,
        priority: i64,
        capacity: Option<i64>,
        weight: i64,
        enabled: bool,
        exist_ok: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (capacity, weight) = (values::capacity_in(capacity)?, values::weight_in(weight)?);
        let settings = Settings { priority, capacity, weight };
        let (core, subs) = (&self.core, self.sub_queues.bind(py));
        let refused = || errors::SHUT_DOWN.error(py, "the multi-queue was shut down; no sub-queue can be added");
        if core.is_shut_down() {
            return Err(refused());
        }
        let mut found = gil::look_up(subs, &key)?;
        if found.is_none() {
            let label = Arc::new(Label::new(key.clone().unbind()));
            let disabled_by = (!enabled).then(String::new);
            let attached = core.add(label.clone(), settings, disabled_by).map_err(|_| refused())?;
            let made = Bound::new(py, SubQueue::new(attached, label))?;
            made.get().label.set_object(&made)?;
            // Hashing or comparing the key may run Python code, in which another thread may add it.
            let winner = gil::call_method(subs, "setdefault", [&key, made.as_any()])?;
            if winner.is(&made) {
                return Ok(winner);
            }
            found = Some(winner);
        }
        match found {
            Some(found) if exist_ok => Ok(found),
            _ => Err(errors::bad_key(format!(
                "there is a sub-queue with the key {} already; pass exist_ok=True to get it",
                gil::repr(&key)?
            ))),
        }
    }

    /// Remove a sub-queue for good, with what it holds.
    ///
    /// Whoever waits to put into it is woken with ``SubQueueRemoved``. The key can be added again.
    ///
    /// Returns:
    ///     The removed sub-queue; its leftovers can be read and cleared.
    /// Raises:
    ///     KeyError: there is none of this key.
    ///
    /// Example:
    ///     >>> from drainq import MultiQueue
    ///     >>> queue = MultiQueue()
    ///     >>> queue.add_sub_queue("mail").put("hello")
    ///     >>> queue.remove_sub_queue("mail").clear()
    ///     ['hello']
    ///
    /// Source: ``removeSubQueue``.
    fn remove_sub_queue<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, SubQueue>> {
        let removed = gil::call_method(self.sub_queues.bind(py), "pop", [key])?.cast_into::<SubQueue>()?;
        removed.get().core().retire();
        Ok(removed)
    }

    /// The sub-queue of this key, or ``default``.
    #[pyo3(signature = (key, default=None))]
    fn get_sub_queue<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(gil::look_up(self.sub_queues.bind(key.py()), key)?.or(default))
    }

    /// The keys of the sub-queues, in the order they were added: a list of one's own.
    fn keys<'py>(&self, py: Python<'py>) -> Bound<'py, PyList> {
        self.sub_queues.bind(py).keys()
    }

    /// Take the item whose turn it is, waiting for one if there is none.
    ///
    /// The wait releases the GIL and ends early on Ctrl-C; no item is lost by it.
    ///
    /// Args:
    ///     block: False to raise at once when there is nothing.
    ///     timeout: seconds to wait for an item; None waits for ever.
    /// Returns:
    ///     The item.
    /// Raises:
    ///     queue.Empty: no enabled sub-queue held an item (in time).
    ///     ShutDown: the multi-queue was shut down and nothing can be got any more.
    ///     ValueError: ``timeout`` is negative or not a number.
    ///
    /// Source: ``take`` and ``poll``; the signature is that of ``queue.Queue.get``.
    #[pyo3(signature = (block=true, timeout=None))]
    fn get(&self, py: Python<'_>, block: bool, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        if timeout.is_none() && block {
            return match self.take_or_wait(py)? {
                Some(item) => Ok(item),
                None => self.get_slowly(py, Patience::for_ever()),
            };
        }
        self.get_slowly(py, Patience::new(block, timeout)?)
    }

    /// Take the item whose turn it is: ``get(block=False)``.
    ///
    /// Raises:
    ///     queue.Empty: there is none.
    ///     ShutDown: as :meth:`get`.
    fn get_nowait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.take_or_wait(py)?.ok_or_else(|| empty(py))
    }

    /// Take the item whose turn it is, with the key of its sub-queue.
    ///
    /// Args:
    ///     block, timeout: as :meth:`get`.
    /// Returns:
    ///     ``(key, item)``.
    /// Raises:
    ///     queue.Empty, ShutDown, ValueError: as :meth:`get`.
    #[pyo3(signature = (block=true, timeout=None))]
    fn get_item(&self, py: Python<'_>, block: bool, timeout: Option<f64>) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let (patience, core) = (Patience::new(block, timeout)?, &self.core);
        let taken =
            until(py, core.getter(), patience, |_, _| self.or_wait(py, self.selection.take_labelled(py, core)?))?;
        let (label, item) = taken.ok_or_else(|| empty(py))?;
        Ok((label.key.clone_ref(py), item))
    }

    /// Take many items at once, in the order that as many :meth:`get` would take them.
    ///
    /// Args:
    ///     n: items at most; 0 or less takes none.
    ///     min_items: waits until it has this many; 0 never waits.
    ///     timeout: seconds to wait; None waits for ever.
    /// Returns:
    ///     A list of up to ``n`` items: at least ``min_items`` of them, unless time ran out or a
    ///     shutdown came; then what was there, perhaps ``[]``.
    /// Raises:
    ///     ShutDown: the multi-queue was shut down and nothing can be got any more.
    ///     ValueError: ``min_items`` or ``timeout`` is negative, or ``min_items > n``.
    ///
    /// While it waits it takes nothing: others may, so with ``min_items`` it may wait as long as they
    /// do. Where a full sub-queue keeps producers out, enough could never come: then the first waiting
    /// ``get_many``, and no other, takes what is there and holds it. Should an exception end that wait
    /// (Ctrl-C), what it held goes back to the heads it came from; a sub-queue that is removed gets it back.
    ///
    /// Example:
    ///     >>> from drainq import MultiQueue
    ///     >>> queue = MultiQueue()
    ///     >>> queue.add_sub_queue("a").put_many("xyz"), queue.add_sub_queue("b").put_many("1")
    ///     (3, 1)
    ///     >>> queue.get_many(100)
    ///     ['x', '1', 'y', 'z']
    ///
    /// Source: ``drainTo``; it obeys ``selection`` here, and can wait.
    #[pyo3(signature = (n, *, min_items=1, timeout=None))]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        n: i64,
        min_items: i64,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (most, least) = values::amounts_in(n, min_items)?;
        let (patience, core) = (Patience::new(least > 0, timeout)?, &self.core);
        if let Some(items) = self.selection.take_all(core, least, most) {
            return PyList::new(py, items);
        }
        let items = until(py, core.getter(), patience, |wait, which| {
            let least = if which == Try::Last { 0 } else { least };
            if self.selection.gather(py, core, wait, least, most)? == Gathered::TooFew {
                return Ok(None);
            }
            let items = wait.finish();
            if items.is_empty() && most > 0 && core.is_shut_down() {
                return Err(shut_down(py));
            }
            Ok(Some(items))
        })?;
        PyList::new(py, items.unwrap_or_default())
    }

    /// The item that the next get would take; it stays.
    ///
    /// Raises:
    ///     queue.Empty: there is none.
    ///     ShutDown: as :meth:`get`.
    fn peek(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.or_wait(py, self.selection.peek(py, &self.core)?)?.ok_or_else(|| empty(py))
    }

    /// Take the item whose turn it is from a coroutine: ``item = await queue.get_async()``.
    ///
    /// Cancelling the wait takes nothing. Put a limit on it with ``asyncio.wait_for``.
    ///
    /// Returns:
    ///     The item, when awaited.
    /// Raises:
    ///     ShutDown: as :meth:`get`, when awaited.
    ///
    /// Example:
    ///     >>> import asyncio
    ///     >>> from drainq import MultiQueue
    ///     >>> queue = MultiQueue()
    ///     >>> queue.add_sub_queue("mail").put("hello")
    ///     >>> asyncio.run(queue.get_async())
    ///     'hello'
    fn get_async(slf: Py<Self>) -> QueueAwaitable {
        QueueAwaitable::new(Attempt::Get(slf))
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__(slf: Py<Self>) -> QueueAwaitable {
        QueueAwaitable::new(Attempt::Next(slf))
    }

    /// The number of items that can be got now; those of disabled sub-queues do not count.
    fn qsize(&self) -> usize {
        self.core.len()
    }

    /// Whether nothing can be got now: ``qsize() == 0``.
    fn empty(&self) -> bool {
        self.core.is_empty()
    }

    /// Refuse items from now on; whoever waits is woken.
    ///
    /// Puts and :meth:`add_sub_queue` raise ``ShutDown``. Gets go on until nothing can be got any
    /// more, then raise it too.
    ///
    /// Args:
    ///     immediate: True to discard all that waits, counted as ``removed``.
    ///
    /// Source: ``queue.Queue.shutdown`` of Python 3.13; the same on every version here.
    #[pyo3(signature = (immediate=false))]
    fn shutdown(&self, immediate: bool) {
        let leftovers = if immediate { ShutdownMode::Discard } else { ShutdownMode::Serve };
        drop(self.core.shut_down(leftovers));
    }

    /// Whether it was shut down.
    #[getter]
    fn is_shutdown(&self) -> bool {
        self.core.is_shut_down()
    }

    /// The counters of all sub-queues and of the whole, taken in one moment.
    fn stats(&self, py: Python<'_>) -> PyResult<MultiQueueStats> {
        let core = &self.core;
        let entries: Vec<_> = self.sub_queues.bind(py).iter().collect();
        let subs = entries.iter().map(|(_, sub)| Ok(sub.cast::<SubQueue>()?.get().core()));
        let (each, total, blocked_getters) = core.stats(&subs.collect::<PyResult<Vec<_>>>()?);
        let by_key = PyDict::new(py);
        for ((key, _), stats) in entries.iter().zip(each) {
            if let Some(stats) = stats {
                let stats = SubQueueStats::from(stats).into_pyobject(py)?;
                gil::call_method(&by_key, "__setitem__", [key, stats.as_any()])?;
            }
        }
        Ok(MultiQueueStats::new(total, blocked_getters, by_key.unbind()))
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        gil::call_method(self.sub_queues.bind(key.py()), "__getitem__", [key])
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        gil::look_up(self.sub_queues.bind(key.py()), key).map(|found| found.is_some())
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.sub_queues.bind(py).len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.keys(py).try_iter()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let subs = self.sub_queues.bind(py).len();
        let condition = if self.core.is_shut_down() { " shut down" } else { "" };
        format!("<MultiQueue sub_queues={subs} size={}{condition}>", self.core.len())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.sub_queues)?;
        if let Selection::Custom(object) = &self.selection {
            visit.call(object)?;
        }
        self.sleepers.traverse(&visit)
    }

    fn __clear__(&self, py: Python<'_>) {
        self.sleepers.clear();
        self.sub_queues.bind(py).clear();
    }
}
