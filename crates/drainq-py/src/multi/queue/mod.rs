//! `MultiQueue`: the get side of many sub-queues.
//!
//! | file | verb |
//! | --- | --- |
//! | `sub_queues.rs` | add, remove, look up sub-queues |
//! | `get.rs`, `get_many.rs` | take items |
//! | `done.rs` | the end of the work |
//! | here | shut down, count |

mod done;
mod get;
mod get_many;
mod sub_queues;

use super::core_types::{self, Core};
use super::selection::SelectionRule;
use super::stats;
use super::sub_queue::{SubQueue, left};
use crate::monitoring::object_registry::Observed;
use crate::waiting::event_loops::EventLoops;
use crate::waiting::queue::shared_methods;
use crate::{arguments, fork, pickling};
use drainq_core::clock::CoarseClock;
use drainq_core::multi::ShutdownMode;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Arc, Weak};

/// Many keyed queues behind one blocking ``get``.
///
/// A get takes from the sub-queues of the lowest priority number first, and among those of one
/// priority in turn, over fixed places in the order they were added. Sub-queues can be added,
/// removed, disabled, enabled and re-prioritised at any time. A get costs the same among 10,000
/// idle sub-queues as among one. Threads and asyncio tasks may use one object together.
///
/// ``key in queue``, ``queue[key]``, ``len(queue)`` and ``list(queue)`` work as on a dict of the
/// sub-queues. ``for item in queue.stream()`` gets items until the shutdown.
///
/// Args:
///     selection: ``"priority"`` serves only the first non-empty priority, its sub-queues round-robin, ``weight`` turns
///         in a row each. ``"weighted"`` serves all in one ring, shares by ``weight``; priority only orders a round. Or
///         an object with ``select(groups)``: it gets a list by priority of lists of :class:`SubQueue` in order of
///         turn, none of them empty or disabled, and returns one of these sub-queues.
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
    selection: SelectionRule,
    event_loops: Arc<EventLoops>,
}

impl MultiQueue {
    /// Returns the object that the metrics endpoint reads.
    pub fn observed(&self) -> Weak<dyn Observed> {
        Arc::downgrade(self.core.shared()) as Weak<dyn Observed>
    }
}

shared_methods!(MultiQueue);

#[pymethods]
impl MultiQueue {
    #[new]
    #[pyo3(signature = (selection=None), text_signature = "(selection='priority')")]
    fn new(py: Python<'_>, selection: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let selection = selection.map_or(Ok(SelectionRule::default()), SelectionRule::new)?;
        let core = Core::new(selection.order(), CoarseClock::default());
        core_types::restart_in_children(&core);
        Ok(Self { core, sub_queues: PyDict::new(py).unbind(), selection, event_loops: Arc::default() })
    }

    /// Return the number of items that can be got now; those of disabled sub-queues do not count.
    fn qsize(&self) -> usize {
        self.core.len()
    }

    /// Whether nothing can be got now: ``qsize() == 0``.
    fn empty(&self) -> bool {
        self.core.is_empty()
    }

    /// Refuse items from now on, and wake all waiting getters and putters.
    ///
    /// Puts and :meth:`add_sub_queue` raise ``ShutDown``. Gets continue until nothing can be got, then raise it too.
    ///
    /// Args:
    ///     immediate: True to discard all that waits, counted as ``removed``.
    ///
    /// ``with`` and ``async with`` shut it down at the end of their block.
    ///
    /// Source: ``queue.Queue.shutdown`` of Python 3.13; the same on every version here.
    #[pyo3(signature = (immediate=false))]
    fn shutdown(&self, py: Python<'_>, #[pyo3(from_py_with = arguments::immediate)] immediate: bool) {
        let mode = if immediate { ShutdownMode::Discard } else { ShutdownMode::Serve };
        self.core.shut_down(mode).into_iter().for_each(|item| drop(left(py, item)));
    }

    /// Whether it was shut down.
    #[getter]
    fn is_shutdown(&self) -> bool {
        self.core.is_shut_down()
    }

    /// Return the counters of all sub-queues and of the whole, taken at one moment.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (keys, sub_queues): (Vec<_>, Vec<_>) = self.sub_queues.bind(py).iter().unzip();
        let cores = sub_queues.iter().map(|sub| Ok(sub.cast::<SubQueue>()?.get().core()));
        stats::of_multi_queue(py, &self.core, keys, &cores.collect::<PyResult<Vec<_>>>()?)
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        pickling::refuse(
            slf,
            "its items and waiters belong to this process",
            "the keys and settings of its sub-queues, and make a MultiQueue where it is used",
        )
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let subs = self.sub_queues.bind(py).len();
        let condition = if self.core.is_shut_down() { " shut down" } else { "" };
        format!("<MultiQueue sub_queues={subs} size={}{condition}>", self.core.len())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.sub_queues)?;
        if let SelectionRule::Custom(object) = &self.selection {
            visit.call(object)?;
        }
        if fork::is_renewed() { self.event_loops.traverse(&visit) } else { Ok(()) }
    }

    fn __clear__(&self, py: Python<'_>) {
        self.sub_queues.bind(py).clear();
    }
}
