//! The sub-queues of a multi-queue, by key.

use super::MultiQueue;
use crate::multi::label::Label;
use crate::multi::sub_queue::{SubQueue, Unique};
use crate::multi::values;
use crate::{arguments, errors, gil};
use drainq_core::multi::SubQueueSettings;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};
use std::sync::Arc;

impl MultiQueue {
    fn unknown(&self, key: &Bound<'_, PyAny>) -> PyErr {
        values::unknown_key(key, &self.sub_queues.bind(key.py()).keys())
    }
}

#[pymethods]
impl MultiQueue {
    /// Add a sub-queue, at the place after the last one of its priority.
    ///
    /// Args:
    ///     key: any hashable object, None included.
    ///     priority: lower is served first; negative numbers are allowed.
    ///     capacity: items at most, at least 1; None is unbounded.
    ///     weight: turns in a row, at least 1.
    ///     enabled: False to start disabled, for the reason ``""``.
    ///     exist_ok: True to return the sub-queue that has this key already, unchanged.
    ///     unique: True to leave an item out while an equal one waits; or a function that makes the key by which
    ///         items are compared. A taken item is forgotten, so failed work can be put back, and there are never
    ///         more keys in memory than waiting items.
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
    #[pyo3(signature = (key, priority=0, capacity=None, *, weight=1, enabled=true, exist_ok=false, unique=None),
        text_signature = "($self, key, priority=0, capacity=None, *, weight=1, enabled=True, exist_ok=False, unique=False)")]
    #[allow(clippy::too_many_arguments)]
    fn add_sub_queue<'py>(
        &self,
        py: Python<'py>,
        key: Bound<'py, PyAny>,
        #[pyo3(from_py_with = arguments::priority)] priority: i64,
        #[pyo3(from_py_with = arguments::capacity)] capacity: Option<i64>,
        #[pyo3(from_py_with = arguments::turns)] weight: i64,
        #[pyo3(from_py_with = arguments::enabled)] enabled: bool,
        #[pyo3(from_py_with = arguments::exist_ok)] exist_ok: bool,
        unique: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (capacity, weight) = (arguments::capacity_in_items(capacity)?, values::weight_in(weight)?);
        let settings = SubQueueSettings { priority, capacity, weight };
        arguments::hashable("key", &key)?;
        let unique = unique.map_or(Ok(None), Unique::new)?;
        let (core, subs) = (&self.core, self.sub_queues.bind(py));
        let refused = || errors::SHUT_DOWN.error(py, "the multi-queue was shut down; no sub-queue can be added");
        if core.is_shut_down() {
            return Err(refused());
        }
        let mut found = subs.get_item(&key)?;
        if found.is_none() {
            let label = Arc::new(Label::new(key.clone()));
            let disabled_by = (!enabled).then(String::new);
            let attached = core.add(label.clone(), settings, disabled_by).map_err(|_| refused())?;
            let made = Bound::new(py, SubQueue::new(attached, label, unique))?;
            made.get().label().set_object(made.as_any())?;
            // Hashing or comparing the key may run Python code, and another thread may then add the key.
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
                errors::shown(&key)
            ))),
        }
    }

    /// Remove a sub-queue for good, with its items.
    ///
    /// Putters that wait for room in the sub-queue raise ``SubQueueRemoved``. The key can be added again.
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
    ///     True
    ///     >>> queue.remove_sub_queue("mail").clear()
    ///     ['hello']
    ///
    /// Source: ``removeSubQueue``.
    fn remove_sub_queue<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, SubQueue>> {
        let removed = match gil::call_method(self.sub_queues.bind(py), "pop", [key, py.None().bind(py)])? {
            nothing if nothing.is_none() => return Err(self.unknown(key)),
            removed => removed.cast_into::<SubQueue>()?,
        };
        removed.get().core().retire();
        Ok(removed)
    }

    /// Return the sub-queue of this key, or ``default``.
    #[pyo3(signature = (key, default=None))]
    fn get_sub_queue<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.sub_queues.bind(key.py()).get_item(key)?.or(default))
    }

    /// Return the keys of the sub-queues, in the order they were added, as a new list.
    fn keys<'py>(&self, py: Python<'py>) -> Bound<'py, PyList> {
        self.sub_queues.bind(py).keys()
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.sub_queues.bind(key.py()).get_item(key)?.ok_or_else(|| self.unknown(key))
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.sub_queues.bind(key.py()).get_item(key).map(|found| found.is_some())
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.sub_queues.bind(py).len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.keys(py).try_iter()
    }
}
