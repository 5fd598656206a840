//! Looks up, lists and takes out the items of a set queue.

use super::SetQueue;
use super::waiting::release;
use drainq_core::sources::set_queue::EntryState;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};

#[pymethods]
impl SetQueue {
    /// Whether an equal item would be refused: it waits, is in flight, or is remembered.
    fn knows(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        let mut identity = self.identity(item)?;
        self.forget_due(item.py())?;
        let (state, found) = self.locate(item.py(), &mut identity)?;
        drop(state);
        Ok(found.is_some())
    }

    /// Take out all waiting items, first to last. Items in flight stay known.
    fn clear<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut state = self.state.lock();
        let entries = state.queue.clear();
        release(&self.state, state);
        PyList::new(py, entries.into_iter().map(|entry| entry.item.unwrap_or(entry.key)))
    }

    /// Whether an equal item waits in the queue.
    fn __contains__(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        let mut identity = self.identity(item)?;
        let (state, found) = self.locate(item.py(), &mut identity)?;
        drop(state);
        Ok(matches!(found, Some((_, EntryState::Waiting))))
    }

    /// A snapshot of the waiting items, first to last.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let state = self.state.lock();
        let items: Vec<_> = state.queue.iter().map(|entry| entry.shared(py)).collect();
        drop(state);
        PyList::new(py, items)?.try_iter()
    }
}
