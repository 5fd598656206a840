//! `put`, `put_nowait` and `put_many`: items into a set queue.

use super::SetQueue;
use super::state::{KnownItem, WaitFor};
use crate::{deadline::Deadline, errors, gil};
use pyo3::prelude::*;

impl SetQueue {
    /// Puts an item: whether it went in, or `None` if there was no room. No deadline: no waiting.
    #[inline]
    fn put_until(&self, py: Python<'_>, item: Bound<'_, PyAny>, deadline: Option<Deadline>) -> PyResult<Option<bool>> {
        let mut identity = self.identity(&item)?;
        let (mut last_try, mut waited) = (false, false);
        let refused = loop {
            self.forget_due(py)?;
            let (mut state, found) = match self.locate(&mut identity) {
                Ok(located) => located,
                Err(error) => break Err(error),
            };
            if state.closed {
                drop(state);
                break Err(errors::SHUT_DOWN.error(py, "the queue is shut down"));
            }
            if found.is_some() {
                state.duplicates += 1;
                break Ok(Some(false));
            }
            if self.capacity.is_none_or(|capacity| state.queue.len() < capacity) {
                let item = self.key.is_some().then(|| item.unbind());
                state.queue.push(identity.hash(), KnownItem { key: identity.key(), item });
                state.put += 1;
                state.getters.wake(1);
                state.putters.wake_tagged(identity.hash()); // perhaps duplicates of this one by now
                return Ok(Some(true));
            }
            let Some(deadline) = deadline.filter(|_| !last_try) else { break Ok(None) };
            waited = true;
            match self.wait(py, state, WaitFor::Room, identity.hash(), deadline) {
                Ok(woken) => last_try = !woken,
                Err(error) => break Err(error),
            }
        };
        if waited {
            self.hand_on(WaitFor::Room);
        }
        refused
    }
}

#[pymethods]
impl SetQueue {
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
}
