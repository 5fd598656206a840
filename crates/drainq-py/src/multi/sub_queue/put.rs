//! `put`, `put_nowait` and `put_many`: items into a sub-queue.

use super::SubQueue;
use crate::deadline::MayWait;
use crate::waiting::blocking::{Otherwise, until};
use crate::{arguments, core_errors, errors};
use drainq_core::multi::PutRefusal;
use pyo3::prelude::*;

impl SubQueue {
    #[cold]
    pub(super) fn refused(&self, py: Python<'_>, refusal: PutRefusal) -> PyErr {
        if refusal == PutRefusal::NoMemory {
            return errors::no_memory(py); // a name would need some
        }
        core_errors::of_put(py, &self.label.name(py), || self.core.settings().capacity, refusal)
    }

    /// Puts `item`; false if there is no room now.
    pub(super) fn try_put(&self, py: Python<'_>, item: &Py<PyAny>, otherwise: Otherwise) -> PyResult<bool> {
        match self.core.try_put(item.clone_ref(py)) {
            Ok(()) => Ok(true),
            Err((_, refusal)) => self.no_room(py, refusal, otherwise).map(|()| false),
        }
    }

    /// Raises if there will never be room, or no room within this call.
    fn no_room(&self, py: Python<'_>, refusal: PutRefusal, otherwise: Otherwise) -> PyResult<()> {
        match (refusal, otherwise) {
            (PutRefusal::Full, _) | (PutRefusal::Orphaned, Otherwise::GiveUp) => Ok(()),
            _ => Err(self.refused(py, refusal)),
        }
    }

    #[cold]
    fn put_slowly(&self, py: Python<'_>, item: &Py<PyAny>, may_wait: MayWait) -> PyResult<()> {
        let put = until(py, self.core.putter(), may_wait, |_, otherwise| {
            Ok(self.try_put(py, item, otherwise)?.then_some(()))
        });
        match put {
            Ok(Some(())) => Ok(()),
            failed => {
                self.core.reject(1);
                failed.and_then(|_| Err(self.refused(py, PutRefusal::Full)))
            }
        }
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
    ///     MemoryError: there is no memory for the item, which counts as rejected.
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
    fn put(
        &self,
        py: Python<'_>,
        item: Py<PyAny>,
        #[pyo3(from_py_with = arguments::block)] block: bool,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<()> {
        let may_wait = match timeout {
            None if block => match self.core.try_put(item) {
                Ok(()) => return Ok(()),
                Err((item, _)) => return self.put_slowly(py, &item, MayWait::for_ever()),
            },
            _ => MayWait::new(block, timeout)?,
        };
        self.put_slowly(py, &item, may_wait)
    }

    /// Put an item at the end if there is room: ``put(item, block=False)``.
    ///
    /// Raises:
    ///     queue.Full: there is no room.
    ///     SubQueueRemoved, ShutDown: as :meth:`put`.
    fn put_nowait(&self, py: Python<'_>, item: Py<PyAny>) -> PyResult<()> {
        match self.core.try_put(item) {
            Ok(()) => Ok(()),
            Err((_item, refusal)) => {
                self.core.reject(1);
                self.no_room(py, refusal, Otherwise::GiveUp)?;
                Err(self.refused(py, PutRefusal::Full))
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
    ///     SubQueueRemoved, ShutDown, MemoryError: as :meth:`put`. Of these and of an exception that ends the wait
    ///         (Ctrl-C) the attribute ``accepted`` says how many items had gone in before.
    ///     ValueError: ``timeout`` is negative or not a number.
    ///
    /// Example:
    ///     >>> from drainq import MultiQueue
    ///     >>> mail = MultiQueue().add_sub_queue("mail", capacity=2)
    ///     >>> mail.put_many(["a", "b", "c"], block=False)
    ///     2
    #[pyo3(signature = (items, block=true, timeout=None))]
    fn put_many(
        &self,
        py: Python<'_>,
        items: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::block)] block: bool,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<usize> {
        let may_wait = MayWait::new(block, timeout)?;
        let mut all = Vec::new();
        for item in arguments::items(items)? {
            all.try_reserve(1).map_err(|_| errors::no_memory(py))?;
            all.push(item?.unbind());
        }
        let (core, offered) = (&self.core, all.len());
        let mut rest = all.into_iter();
        let put = until(py, core.putter(), may_wait, |_, otherwise| match core.try_put_many(&mut rest) {
            Ok(()) => Ok(Some(())),
            Err(refusal) => self.no_room(py, refusal, otherwise).map(|()| None),
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
}
