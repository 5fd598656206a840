//! `SubQueue`: the put side of a multi-queue.

use super::awaitable::{Attempt, QueueAwaitable};
use super::blocking::{Patience, until};
use super::fork::Owned;
use super::handle::{Label, SubCore};
use super::loops::Sleepers;
use super::stats::SubQueueStats;
use super::values;
use crate::errors;
use drainq_core::multi::{Bond, Refusal};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};
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
    core: Owned<SubCore>,
    pub(super) label: Arc<Label>,
    pub(super) sleepers: Arc<Sleepers>,
}

impl SubQueue {
    pub(super) fn new(core: SubCore, label: Arc<Label>) -> Self {
        Self { core: Owned::new(core), label, sleepers: Arc::default() }
    }

    #[inline]
    pub(super) fn core(&self, py: Python<'_>) -> PyResult<&SubCore> {
        self.core.get(py)
    }

    /// The exception for an item that is refused for good.
    #[cold]
    fn refused(&self, py: Python<'_>, core: &SubCore, refusal: Refusal) -> PyErr {
        let name = self.label.name(py);
        match refusal {
            Refusal::Full => {
                let capacity = core.settings().capacity;
                errors::FULL.error(py, format!("sub-queue {name} is full (capacity {capacity})"))
            }
            Refusal::Removed => errors::SUB_QUEUE_REMOVED
                .error(py, format!("sub-queue {name} was removed; nothing can be put into it any more")),
            Refusal::ShutDown => errors::SHUT_DOWN
                .error(py, format!("the multi-queue of sub-queue {name} was shut down; nothing can be put into it")),
        }
    }

    /// Puts `item`; false if it has to wait for room.
    pub(super) fn put_or_wait(&self, py: Python<'_>, item: &Py<PyAny>) -> PyResult<bool> {
        let core = self.core(py)?;
        match core.try_put(item.clone_ref(py)) {
            Ok(()) => Ok(true),
            Err((_, Refusal::Full)) => Ok(false),
            Err((_, refusal)) => Err(self.refused(py, core, refusal)),
        }
    }

    /// Counts an item whose putter gave up.
    pub(super) fn reject_one(&self) {
        if let Some(core) = self.core.here() {
            core.reject(1);
        }
    }

    #[cold]
    fn put_slowly(&self, py: Python<'_>, item: &Py<PyAny>, patience: Patience) -> PyResult<()> {
        let core = self.core(py)?;
        let put = until(py, core.putter(), patience, || Ok(self.put_or_wait(py, item)?.then_some(())));
        match put {
            Ok(Some(())) => Ok(()),
            failed => {
                core.reject(1);
                failed.and_then(|_| Err(self.refused(py, core, Refusal::Full)))
            }
        }
    }

    /// Takes `object` out, the very object and not an equal one; false if it is gone.
    fn take_out(&self, py: Python<'_>, object: &Py<PyAny>) -> PyResult<bool> {
        Ok(self.core(py)?.remove(|item| item.is(object)).is_some())
    }

    fn snapshot(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        Ok(self.core(py)?.read(|items| items.map(|item| item.clone_ref(py)).collect()))
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
    ///     ShutDown: its multi-queue was shut down.
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
            None if block => match self.core(py)?.try_put(item) {
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
        let core = self.core(py)?;
        match core.try_put(item) {
            Ok(()) => Ok(()),
            Err((item, refusal)) => {
                core.reject(1);
                drop(item);
                Err(self.refused(py, core, refusal))
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
        let items = items.try_iter()?.map(|item| item.map(Bound::unbind)).collect::<PyResult<Vec<_>>>()?;
        let (core, offered) = (self.core(py)?, items.len());
        let mut rest = items.into_iter();
        let put = until(py, core.putter(), patience, || match core.try_put_many(&mut rest) {
            Ok(()) => Ok(Some(())),
            Err(Refusal::Full) => Ok(None),
            Err(refusal) => Err(self.refused(py, core, refusal)),
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
    fn qsize(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.core(py)?.len())
    }

    /// Whether no item waits here.
    fn empty(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.core(py)?.is_empty())
    }

    /// Whether there is no room; never so without a capacity.
    fn full(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.core(py)?.room() == 0)
    }

    /// How many more items fit; None without a capacity.
    fn remaining_capacity(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        let core = self.core(py)?;
        Ok(values::capacity_out(core.settings().capacity).map(|_| core.room()))
    }

    /// Take every item out; wakes whoever waits for room.
    ///
    /// Returns:
    ///     The items, first to last.
    fn clear<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.core(py)?.clear())
    }

    /// Take out the first item that is ``item`` or equals it.
    ///
    /// The items are compared on a snapshot, without any lock; one that somebody takes meanwhile
    /// is not taken twice.
    ///
    /// Returns:
    ///     True if an item was taken out, False if there was none.
    fn remove(&self, py: Python<'_>, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        for candidate in self.snapshot(py)? {
            if values::is_same(candidate.bind(py), item)? && self.take_out(py, &candidate)? {
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
        let mut chosen = Vec::new();
        for candidate in self.snapshot(py)? {
            if predicate.call1((&candidate,))?.is_truthy()? {
                chosen.push(candidate);
            }
        }
        let removed = PyList::empty(py);
        for item in chosen {
            if self.take_out(py, &item)? {
                removed.append(item)?;
            }
        }
        Ok(removed)
    }

    /// Serve the items again.
    ///
    /// Args:
    ///     reason: takes this reason of :meth:`disable` away; None takes all away. The sub-queue
    ///         is served again once no reason is left. A reason that is not there changes nothing.
    #[pyo3(signature = (reason=None))]
    fn enable(&self, py: Python<'_>, reason: Option<&str>) -> PyResult<()> {
        self.core(py)?.enable(reason);
        Ok(())
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
    fn disable(&self, py: Python<'_>, reason: &str) -> PyResult<()> {
        self.core(py)?.disable(reason.to_owned());
        Ok(())
    }

    /// Whether the items are served: no reason of :meth:`disable` is left.
    #[getter]
    fn enabled(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.core(py)?.disabled_by().is_empty())
    }

    /// The reasons why it is disabled, sorted.
    #[getter]
    fn disabled_by(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.core(py)?.disabled_by())
    }

    /// The key it was added under.
    #[getter]
    fn key(&self, py: Python<'_>) -> Py<PyAny> {
        self.label.key.clone_ref(py)
    }

    /// Whether it was removed from its multi-queue.
    #[getter]
    fn removed(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.core(py)?.bond() == Bond::Removed)
    }

    /// The priority, lower is served first. Setting it moves the sub-queue, with its items, to the
    /// place after the last one of that priority.
    #[getter]
    fn priority(&self, py: Python<'_>) -> PyResult<i64> {
        Ok(self.core(py)?.settings().priority)
    }

    #[setter]
    fn set_priority(&self, py: Python<'_>, priority: i64) -> PyResult<()> {
        self.core(py)?.set_priority(priority);
        Ok(())
    }

    /// How many items fit, at least 1; None is unbounded. Lowering it keeps what is there.
    #[getter]
    fn capacity(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        Ok(values::capacity_out(self.core(py)?.settings().capacity))
    }

    #[setter]
    fn set_capacity(&self, py: Python<'_>, capacity: Option<i64>) -> PyResult<()> {
        let capacity = values::capacity_in(capacity)?;
        self.core(py)?.set_capacity(capacity);
        Ok(())
    }

    /// The number of turns in a row, at least 1.
    #[getter]
    fn weight(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.core(py)?.settings().weight)
    }

    #[setter]
    fn set_weight(&self, py: Python<'_>, weight: i64) -> PyResult<()> {
        let weight = values::weight_in(weight)?;
        self.core(py)?.set_weight(weight);
        Ok(())
    }

    /// The counters of this sub-queue at this moment, removed or not.
    fn stats(&self, py: Python<'_>) -> PyResult<SubQueueStats> {
        Ok(self.core(py)?.stats().into())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.snapshot(py)?)?.try_iter()
    }

    fn __contains__(&self, py: Python<'_>, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        for candidate in self.snapshot(py)? {
            if values::is_same(candidate.bind(py), item)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let name = self.label.name(py);
        let Some(core) = self.core.here() else {
            return Ok(format!("<SubQueue {name} of the parent process>"));
        };
        let (settings, size) = (core.settings(), core.len());
        let capacity = values::capacity_out(settings.capacity).map_or("unbounded".into(), |items| items.to_string());
        let reasons = core.disabled_by();
        let condition = match core.bond() {
            Bond::Removed => "removed".to_owned(),
            Bond::Attached if reasons.is_empty() => "enabled".to_owned(),
            Bond::Attached => format!("disabled by {reasons:?}"),
        };
        let (priority, weight) = (settings.priority, settings.weight);
        Ok(format!("<SubQueue {name} priority={priority} weight={weight} size={size} capacity={capacity} {condition}>"))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.label.key)?;
        self.sleepers.traverse(&visit)?;
        match self.core.here() {
            Some(core) => core.read(|items| {
                for item in items {
                    visit.call(item)?;
                }
                Ok(())
            }),
            None => Ok(()),
        }
    }

    fn __clear__(&self) {
        self.sleepers.clear();
        if let Some(core) = self.core.here() {
            drop(core.clear());
        }
    }
}
