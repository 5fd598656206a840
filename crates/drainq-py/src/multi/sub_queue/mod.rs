//! `SubQueue`: the put side of a multi-queue.
//!
//! | file | verb |
//! | --- | --- |
//! | `put.rs`, `put_async.rs` | put items |
//! | `contents.rs` | read the items, take items out |
//! | `unique.rs` | leave duplicates out |
//! | `settings.rs` | enable, disable; priority, capacity, weight |
//! | here | measure, count |

mod contents;
mod put;
mod put_async;
mod settings;
mod unique;

use super::core_types::SubCore;
use super::label::Label;
use super::stats;
use crate::waiting::event_loops::EventLoops;
use crate::{arguments, errors, fork, pickling};
use drainq_core::multi::Membership;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::Arc;
pub(super) use unique::{Unique, left, shown};

/// One keyed queue below a :class:`MultiQueue`: items go in here and come out there.
///
/// Made by :meth:`MultiQueue.add_sub_queue`. ``for item in sub_queue`` and ``list(sub_queue)``
/// read a snapshot, first item first; ``item in sub_queue`` compares as a list does. No lock
/// is held meanwhile, so an item's ``__eq__`` may use the queue.
///
/// After :meth:`MultiQueue.remove_sub_queue` puts raise ``SubQueueRemoved``; the leftovers can
/// still be read, removed and cleared, and nothing done here touches the multi-queue any more.
///
/// Source: ``SubQueue`` of linked-blocking-multi-queue.
#[pyclass(frozen, weakref, generic, module = "drainq")]
pub struct SubQueue {
    core: SubCore,
    label: Arc<Label>,
    event_loops: Arc<EventLoops>,
    unique: Option<Unique>,
}

impl SubQueue {
    /// Makes the Python object of a sub-queue of the core.
    pub(super) fn new(core: SubCore, label: Arc<Label>, unique: Option<Unique>) -> Self {
        Self { core, label, event_loops: Arc::default(), unique }
    }

    /// Returns the core's sub-queue.
    #[inline]
    pub(super) fn core(&self) -> &SubCore {
        &self.core
    }

    /// Returns the name by which the core knows the sub-queue.
    pub(super) fn label(&self) -> &Arc<Label> {
        &self.label
    }
}

#[pymethods]
impl SubQueue {
    #[new]
    #[pyo3(signature = (*_given, **_named), text_signature = None)]
    fn refuse(_given: &Bound<'_, PyTuple>, _named: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Err(errors::bad_type("a SubQueue is made by MultiQueue().add_sub_queue(key)"))
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
        arguments::capacity_out(self.core.settings().capacity).map(|_| self.core.room())
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

    /// The counters of this sub-queue at this moment, removed or not.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        stats::of_sub_queue(py, &self.core)
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        pickling::refuse(
            slf,
            "its items and waiters belong to this process",
            "its key, priority, capacity and weight, and add it to a MultiQueue where it is used",
        )
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let name = self.label.name(py);
        let core = &self.core;
        let (settings, size) = (core.settings(), core.len());
        let capacity = arguments::capacity_out(settings.capacity).map_or("unbounded".into(), |items| items.to_string());
        let reasons = core.disabled_by();
        let condition = match core.membership() {
            Membership::Removed => "removed".to_owned(),
            Membership::Attached if reasons.is_empty() => "enabled".to_owned(),
            Membership::Attached => format!("disabled by {reasons:?}"),
        };
        let (priority, weight) = (settings.priority, settings.weight);
        format!("<SubQueue {name} priority={priority} weight={weight} size={size} capacity={capacity} {condition}>")
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.label.key)?;
        if !fork::is_renewed() {
            return Ok(());
        }
        self.event_loops.traverse(&visit)?;
        self.unique.as_ref().map_or(Ok(()), |unique| unique.traverse(&visit))?;
        self.core.read(|items| {
            for item in items {
                visit.call(item)?;
            }
            Ok(())
        })
    }

    fn __clear__(&self) {
        drop(self.core.clear());
    }
}
