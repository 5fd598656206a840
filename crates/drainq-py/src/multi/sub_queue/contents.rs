//! The items of a sub-queue: read, compared, taken out.

use super::unique::shown;
use super::{SubQueue, left};
use crate::gil;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};
use std::collections::HashMap;

impl SubQueue {
    /// Takes `object` out, the very object and not an equal one; false if it is gone.
    fn take_out(&self, py: Python<'_>, object: &Py<PyAny>) -> bool {
        let mut is_found = false;
        let taken = self.core.remove(|item| {
            let is_it = !is_found && item.is(object);
            is_found |= is_it;
            is_it
        });
        taken.into_iter().for_each(|item| drop(left(py, item)));
        is_found
    }

    fn snapshot(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        self.core.read(|items| items.map(|item| item.clone_ref(py)).collect())
    }
}

#[pymethods]
impl SubQueue {
    /// Take every item out, and wake the putters that wait for room.
    ///
    /// Returns:
    ///     The items, first to last.
    fn clear<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.core.clear().into_iter().map(|item| left(py, item)))
    }

    /// Take out the first item that is ``item`` or equals it.
    ///
    /// The items are compared on a snapshot, without any lock; an item that another thread takes meanwhile
    /// is not taken twice.
    ///
    /// Returns:
    ///     True if an item was taken out, False if there was none.
    fn remove(&self, py: Python<'_>, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        for candidate in self.snapshot(py) {
            if gil::are_equal(shown(candidate.bind(py)), item)? && self.take_out(py, &candidate) {
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
        // Objects are counted by address: the snapshot keeps them alive, and an object may be here more than once.
        let mut chosen: HashMap<usize, usize> = HashMap::new();
        for candidate in &snapshot {
            if gil::call(predicate, [shown(candidate.bind(py))])?.is_truthy()? {
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
        PyList::new(py, removed.into_iter().map(|item| left(py, item)))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.snapshot(py).iter().map(|item| shown(item.bind(py))))?.try_iter()
    }

    fn __contains__(&self, py: Python<'_>, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        for candidate in self.snapshot(py) {
            if gil::are_equal(shown(candidate.bind(py)), item)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
