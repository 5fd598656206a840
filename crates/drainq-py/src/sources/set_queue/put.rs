//! `put`, `put_nowait` and `put_many`: items into a set queue.

use super::SetQueue;
use super::state::{KnownItem, WaitFor};
use super::waiting::WaitingCall;
use crate::deadline::MayWait;
use crate::{arguments, errors};
use pyo3::prelude::*;

/// The outcome of a put.
enum PutOutcome {
    /// The item is in the queue.
    Put,
    /// An equal item is known.
    Duplicate,
    /// There was no room, or none in time.
    NoRoom,
}

impl SetQueue {
    /// Puts an item, and waits for room if the call may wait.
    #[inline]
    fn put_until(&self, py: Python<'_>, item: Bound<'_, PyAny>, mut may_wait: MayWait) -> PyResult<PutOutcome> {
        let mut identity = self.identity(&item)?;
        let mut waiting = WaitingCall::new(self, WaitFor::Room);
        loop {
            self.forget_due(py)?;
            let (mut state, found) = self.locate(&mut identity)?;
            if state.closed {
                drop(state);
                return Err(errors::SHUT_DOWN.error(py, "the queue is shut down"));
            }
            if found.is_some() {
                state.duplicates += 1;
                drop(state);
                return Ok(PutOutcome::Duplicate);
            }
            if self.capacity.is_none_or(|capacity| state.queue.len() < capacity) {
                if !state.queue.reserve() {
                    drop(state);
                    return Err(errors::no_memory(py));
                }
                let item = self.key.is_some().then(|| item.unbind());
                state.queue.push(identity.hash(), KnownItem { key: identity.key(), item });
                state.put += 1;
                state.notify_duplicates(identity.hash());
                self.release(state);
                return Ok(PutOutcome::Put);
            }
            let MayWait::Until(deadline) = may_wait else {
                drop(state);
                return Ok(PutOutcome::NoRoom);
            };
            if !waiting.wait(py, state, identity.hash(), deadline)? {
                may_wait = MayWait::No;
            }
        }
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
    ///     True if the item went in; False if an equal item is known, which keeps its position.
    /// Raises:
    ///     queue.Full: no room, or none in time.
    ///     TypeError: the key is not hashable; nothing has changed.
    ///     ShutDown: the queue is shut down.
    ///     MemoryError: there is no memory for the item, which is not put.
    #[pyo3(signature = (item, block=true, timeout=None))]
    fn put<'py>(
        &self,
        item: Bound<'py, PyAny>,
        #[pyo3(from_py_with = arguments::block)] block: bool,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<bool> {
        let py = item.py();
        match self.put_until(py, item, MayWait::new(block, timeout)?)? {
            PutOutcome::Put => Ok(true),
            PutOutcome::Duplicate => Ok(false),
            PutOutcome::NoRoom => {
                let capacity = self.capacity.unwrap_or(usize::MAX);
                Err(errors::FULL.error(py, format!("the queue holds {capacity} items, its capacity")))
            }
        }
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
    ///     How many went in. When there was no room, or none in time, later items were not tried.
    /// Raises:
    ///     ShutDown: the queue is shut down. Of this and any other exception (Ctrl-C, one from the
    ///         iterable or a key) the attribute ``accepted`` says how many items had gone in before.
    #[pyo3(signature = (items, block=true, timeout=None))]
    fn put_many(
        &self,
        items: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::block)] block: bool,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<usize> {
        let may_wait = MayWait::new(block, timeout)?;
        let mut added = 0;
        let mut put_all = || {
            for item in arguments::items(items)? {
                match self.put_until(items.py(), item?, may_wait)? {
                    PutOutcome::Put => added += 1,
                    PutOutcome::Duplicate => {}
                    PutOutcome::NoRoom => break,
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
