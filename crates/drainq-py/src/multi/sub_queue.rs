//! `SubQueue`: the put side of a multi-queue.

use super::awaitable::{Attempt, QueueAwaitable};
use super::blocking::{Attempt as Try, Patience, until};
use super::handle::{Label, SubCore};
use super::loops::Sleepers;
use super::stats::SubQueueStats;
use super::values;
use crate::{errors, gil};
use drainq_core::multi::{Membership, Refusal};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};
use std::collections::HashMap;
use std::sync::Arc;

/// One keyed queue below a :class:`MultiQueue`: items go in here and come out there.
///
/// Made by :meth:`MultiQueue.add_sub_queue`. ``for item in sub_queue`` and ``list(sub_queue)``
/// read a snapshot, first item first; ``item in sub_queue`` compares as a list does. No lock
/// is held meanwhile, so the ``__eq__`` of an item may do what it likes.
///
/// After :meth:`MultiQueue.remove_sub_queue` puts raise ``SubQueueRemoved``; the leftovers can
/// still be read, removed and cleared, and nothing done here touches the multi-queue any more.
///
/// Source: ``SubQueue`` of linked-blocking-multi-queue.
#[pyclass(frozen, weakref, generic, module = "drainq")]
pub struct SubQueue {
    core: SubCore,
    pub(super) label: Arc<Label>,
    pub(super) sleepers: Arc<Sleepers>,
}

impl SubQueue {
    pub(super) fn new(core: SubCore, label: Arc<Label>) -> Self {
        Self { core, label, sleepers: Arc::default() }
    }

    #[inline]
    pub(super) fn core(&self) -> &SubCore {
        &self.core
    }

    /// The exception for an item that is refused for good.
    #[cold]
    fn refused(&self, py: Python<'_>, refusal: Refusal) -> PyErr {
        let name = self.label.name(py);
        match refusal {
            Refusal::Full => {
                let capacity = self.core.settings().capacity;
                errors::FULL.error(py, format!("sub-queue {name} is full (capacity {capacity})"))
            }
            Refusal::Orphaned => errors::SHUT_DOWN
                .error(py, format!("sub-queue {name} is full, and its multi-queue is gone: nothing makes room in it")),
            Refusal::Removed => errors::SUB_QUEUE_REMOVED
                .error(py, format!("sub-queue {name} was removed; nothing can be put into it any more")),
            Refusal::ShutDown => errors::SHUT_DOWN
                .error(py, format!("the multi-queue of sub-queue {name} was shut down; nothing can be put into it")),
        }
    }

    /// Puts `item`; false if there is no room now.
    pub(super) fn try_put(&self, py: Python<'_>, item: &Py<PyAny>, which: Try) -> PyResult<bool> {
        match self.core.try_put(item.clone_ref(py)) {
            Ok(()) => Ok(true),
            Err((_, refusal)) => self.no_room(py, refusal, which).map(|()| false),
        }
    }

    /// An exception if there will be no room ever, or none that is worth a wait.
    fn no_room(&self, py: Python<'_>, refusal: Refusal, which: Try) -> PyResult<()> {
        match (refusal, which) {
            (Refusal::Full, _) | (Refusal::Orphaned, Try::Last) => Ok(()),
            _ => Err(self.refused(py, refusal)),
        }
    }

    /// Counts an item whose putter gave up.
    pub(super) fn reject_one(&self) {
        self.core.reject(1);
    }

    #[cold]
    fn put_slowly(&self, py: Python<'_>, item: &Py<PyAny>, patience: Patience) -> PyResult<()> {
        let put = until(py, self.core.putter(), patience, |_, which| Ok(self.try_put(py, item, which)?.then_some(())));
        match put {
            Ok(Some(())) => Ok(()),
            failed => {
                self.core.reject(1);
                failed.and_then(|_| Err(self.refused(py, Refusal::Full)))
            }
        }
    }

    /// Takes `object` out, the very object and not an equal one; false if it is gone.
    fn take_out(&self, object: &Py<PyAny>) -> bool {
        let mut is_found = false;
        let taken = self.core.remove(|item| {
            let is_it = !is_found && item.is(object);
            is_found |= is_it;
            is_it
        });
        drop(taken);
        is_found
    }

    fn snapshot(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        self.core.read(|items| items.map(|item| item.clone_ref(py)).collect())
    }
}

#[pymethods]
impl SubQueue {
    /// Put an item at the end, waiting for room if there is none.
    ///
    /// The wait releases the GIL and ends early on Ctrl-C.
    ///
    /// Args:
    ///     item: any object, None included.
    ///     block: False to raise at once when there is no room.
    ///     timeout: seconds to wait for room; None waits for ever.
    /// Raises:
    ///     queue.Full: there was no room (in time).
    ///     SubQueueRemoved: it was removed, before the call or during the wait.
    ///     ShutDown: its multi-queue was shut down; or there is no room, and the multi-queue is gone,
    ///         so that no getter will make any.
    ///     ValueError: ``timeout`` is negative or not a number.
    ///
    /// Example:
    ///     >>> from drainq import MultiQueue
    ///     >>> mail = MultiQueue().add_sub_queue("mail", capacity=2)
    ///     >>> mail.put("hello")
    ///     >>> mail.put("world", timeout=0.5)
    ///     >>> mail.full()
    ///     True
    ///
    /// Source: ``SubQueue.put`` and ``offer``; the signature is that of ``queue.Queue.put``.
    #[pyo3(signature = (item, block=true, timeout=None))]
    fn put(&self, py: Python<'_>, item: Py<PyAny>, block: bool, timeout: Option<f64>) -> PyResult<()> {
        let patience = match timeout {
            None if block => match self.core.try_put(item) {
                Ok(()) => return Ok(()),
                Err((item, _)) => return self.put_slowly(py, &item, Patience::for_ever()),
            },
            _ => Patience::new(block, timeout)?,
        };
        self.put_slowly(py, &item, patience)
    }

    /// Put an item at the end if there is room: ``put(item, block=False)``.
    ///
    /// Raises:
    ///     queue.Full: there is no room.
    ///     SubQueueRemoved, ShutDown: as :meth:`put`.
    fn put_nowait(&self, py: Python<'_>, item: Py<PyAny>) -> PyResult<()> {
        match self.core.try_put(item) {
            Ok(()) => Ok(()),
            Err((item, refusal)) => {
                self.core.reject(1);
                drop(item);
                self.no_room(py, refusal, Try::Last)?;
                Err(self.refused(py, Refusal::Full))
            }
        }
    }

    /// Put items at the end, in order, waiting for room as long as it takes or is allowed.
    ///
    /// Args:
    ///     items: an iterable; it is read to its end before the first item goes in.
    ///     block: False to put what fits now.
    ///     timeout: seconds to wait for room, in all; None waits for ever.
    /// Returns:
    ///     How many went in: all, or the first ones if time ran out. The rest is rejected.
    /// Raises:
    ///     SubQueueRemoved, ShutDown: as :meth:`put`. Of these and of an exception that ends the wait
    ///         (Ctrl-C) the attribute ``accepted`` says how many items had gone in before.
    ///     ValueError: ``timeout`` is negative or not a number.
    ///
    /// Example:
    ///     >>> from drainq import MultiQueue
    ///     >>> mail = MultiQueue().add_sub_queue("mail", capacity=2)
    ///     >>> mail.put_many(["a", "b", "c"], block=False)
    ///     2
    #[pyo3(signature = (items, block=true, timeout=None))]
    fn put_many(&self, py: Python<'_>, items: &Bound<'_, PyAny>, block: bool, timeout: Option<f64>) -> PyResult<usize> {
        let patience = Patience::new(block, timeout)?;
        let items = gil::items(items)?.map(|item| item.map(Bound::unbind)).collect::<PyResult<Vec<_>>>()?;
        let (core, offered) = (&self.core, items.len());
        let mut rest = items.into_iter();
        let put = until(py, core.putter(), patience, |_, which| match core.try_put_many(&mut rest) {
            Ok(()) => Ok(Some(())),
            Err(refusal) => self.no_room(py, refusal, which).map(|()| None),
        });
        let accepted = offered - rest.len();
        if rest.len() > 0 {
            core.reject(rest.len() as u64);
        }
        match put {
            Ok(_) => Ok(accepted),
            Err(error) => Err(errors::after_accepting(py, error, accepted)),
        }
    }

    /// Put an item at the end from a coroutine: ``await sub_queue.put_async(item)``.
    ///
    /// Cancelling the wait puts nothing; the item then counts as rejected.
    ///
    /// Args:
    ///     item: any object, None included.
    /// Raises:
    ///     SubQueueRemoved, ShutDown: as :meth:`put`, when awaited.
    ///
    /// Example:
    ///     >>> import asyncio
    ///     >>> from drainq import MultiQueue
    ///     >>> mail = MultiQueue().add_sub_queue("mail", capacity=2)
    ///     >>> asyncio.run(mail.put_async("hello"))
    ///     >>> mail.qsize()
    ///     1
    fn put_async(slf: Py<Self>, item: Py<PyAny>) -> QueueAwaitable {
        QueueAwaitable::new(Attempt::Put(slf, item))
    }

    /// The number of items waiting here, enabled or not.
    fn qsize(&self) -> usize {
        self.core.len()
    }

    /// Whether no item waits here.
    fn empty(&self) -> bool {
        self.core.is_empty()
    }

    /// Whether there is no room; never so without a capacity.
    fn full(&self) -> bool {
        self.core.room() == 0
    }

    /// How many more items fit; None without a capacity.
    fn remaining_capacity(&self) -> Option<usize> {
        values::capacity_out(self.core.settings().capacity).map(|_| self.core.room())
    }

    /// Take every item out; wakes whoever waits for room.
    ///
    /// Returns:
    ///     The items, first to last.
    fn clear<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.core.clear())
    }

    /// Take out the first item that is ``item`` or equals it.
    ///
    /// The items are compared on a snapshot, without any lock; one that somebody takes meanwhile
    /// is not taken twice.
    ///
    /// Returns:
    ///     True if an item was taken out, False if there was none.
    fn remove(&self, py: Python<'_>, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        for candidate in self.snapshot(py) {
            if values::is_same(candidate.bind(py), item)? && self.take_out(&candidate) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Take out the items that ``predicate`` holds for.
    ///
    /// Args:
    ///     predicate: called with each item of a snapshot, first to last, without any lock.
    /// Returns:
    ///     The items that were taken out. If the predicate raises, nothing is.
    ///
    /// Example:
    ///     >>> from drainq import MultiQueue
    ///     >>> numbers = MultiQueue().add_sub_queue("numbers")
    ///     >>> numbers.put_many(range(5))
    ///     5
    ///     >>> numbers.remove_if(lambda n: n % 2 == 0)
    ///     [0, 2, 4]
    fn remove_if<'py>(&self, py: Python<'py>, predicate: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let snapshot = self.snapshot(py);
        // By address: the snapshot keeps the objects alive, and an item may be here more than once.
        let mut chosen: HashMap<usize, usize> = HashMap::new();
        for candidate in &snapshot {
            if gil::call(predicate, [candidate.bind(py)])?.is_truthy()? {
                *chosen.entry(candidate.as_ptr() as usize).or_default() += 1;
            }
        }
        let removed = self.core.remove(|item| match chosen.get_mut(&(item.as_ptr() as usize)) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        });
        PyList::new(py, removed)
    }

    /// Serve the items again.
    ///
    /// Args:
    ///     reason: takes this reason of :meth:`disable` away; None takes all away. The sub-queue
    ///         is served again once no reason is left. A reason that is not there changes nothing.
    #[pyo3(signature = (reason=None))]
    fn enable(&self, reason: Option<&str>) {
        self.core.enable(reason);
    }

    /// Stop serving the items, for one more reason; they stay, keep their order and their turn.
    ///
    /// A disabled sub-queue still accepts items up to its capacity.
    ///
    /// Args:
    ///     reason: a name for :meth:`enable` to take away again; a second time changes nothing.
    ///
    /// Example:
    ///     >>> from drainq import MultiQueue
    ///     >>> mail = MultiQueue().add_sub_queue("mail")
    ///     >>> mail.disable("paused"); mail.disable("no disk space"); mail.enable("paused")
    ///     >>> mail.enabled, mail.disabled_by
    ///     (False, ['no disk space'])
    ///
    /// Source: ``SubQueue.enable(false)``; counted reasons are ours.
    #[pyo3(signature = (reason=""))]
    fn disable(&self, reason: &str) {
        self.core.disable(reason.to_owned());
    }

    /// Whether the items are served: no reason of :meth:`disable` is left.
    #[getter]
    fn enabled(&self) -> bool {
        self.core.disabled_by().is_empty()
    }

    /// The reasons why it is disabled, sorted.
    #[getter]
    fn disabled_by(&self) -> Vec<String> {
        self.core.disabled_by()
    }

    /// The key it was added under.
    #[getter]
    fn key(&self, py: Python<'_>) -> Py<PyAny> {
        self.label.key.clone_ref(py)
    }

    /// Whether it was removed from its multi-queue.
    #[getter]
    fn removed(&self) -> bool {
        self.core.membership() == Membership::Removed
    }

    /// The priority, lower is served first. Setting it moves the sub-queue, with its items, to the
    /// place after the last one of that priority.
    #[getter]
    fn priority(&self) -> i64 {
        self.core.settings().priority
    }

    #[setter]
    fn set_priority(&self, priority: i64) {
        self.core.set_priority(priority);
    }

    /// How many items fit, at least 1; None is unbounded. Lowering it keeps what is there.
    #[getter]
    fn capacity(&self) -> Option<usize> {
        values::capacity_out(self.core.settings().capacity)
    }

    #[setter]
    fn set_capacity(&self, capacity: Option<i64>) -> PyResult<()> {
        let capacity = values::capacity_in(capacity)?;
        self.core.set_capacity(capacity);
        Ok(())
    }

    /// The number of turns in a row, at least 1.
    #[getter]
    fn weight(&self) -> u32 {
        self.core.settings().weight
    }

    #[setter]
    fn set_weight(&self, weight: i64) -> PyResult<()> {
        let weight = values::weight_in(weight)?;
        self.core.set_weight(weight);
        Ok(())
    }

    /// The counters of this sub-queue at this moment, removed or not.
    fn stats(&self) -> SubQueueStats {
        self.core.stats().into()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.snapshot(py))?.try_iter()
    }

    fn __contains__(&self, py: Python<'_>, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        for candidate in self.snapshot(py) {
            if values::is_same(candidate.bind(py), item)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let name = self.label.name(py);
        let core = &self.core;
        let (settings, size) = (core.settings(), core.len());
        let capacity = values::capacity_out(settings.capacity).map_or("unbounded".into(), |items| items.to_string());
        let reasons = core.disabled_by();
        let condition = match core.membership() {
            Membership::Removed => "removed".to_owned(),
            Membership::Attached if reasons.is_empty() => "enabled".to_owned(),
            Membership::Attached => format!("disabled by {reasons:?}"),
        };
        let (priority, weight) = (settings.priority, settings.weight);
        Ok(format!("<SubQueue {name} priority={priority} weight={weight} size={size} capacity={capacity} {condition}>"))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.label.key)?;
        self.sleepers.traverse(&visit)?;
        self.core.read(|items| {
            for item in items {
                visit.call(item)?;
            }
            Ok(())
        })
    }

    fn __clear__(&self) {
        self.sleepers.clear();
        drop(self.core.clear());
    }
}
