//! `put`, `put_nowait` and `put_many`: items into a sub-queue.

use super::SubQueue;
use super::unique::Candidate;
use crate::deadline::MayWait;
use crate::waiting::blocking::{Otherwise, until};
use crate::{arguments, core_errors, errors, objects};
use drainq_core::multi::PutRefusal;
use pyo3::prelude::*;

/// An item that a call tries to put.
pub(super) enum Offered {
    Plain(Py<PyAny>),
    Unique(Candidate),
}

impl SubQueue {
    #[cold]
    pub(super) fn refused(&self, py: Python<'_>, refusal: PutRefusal) -> PyErr {
        if refusal == PutRefusal::NoMemory {
            return errors::no_memory(py); // a name would need some
        }
        core_errors::of_put(py, &self.label.name(py), || self.core.settings().capacity, refusal)
    }

    /// Makes the key of an item, if the sub-queue has no duplicates.
    pub(super) fn offered(&self, py: Python<'_>, item: Py<PyAny>) -> PyResult<Offered> {
        Ok(match &self.unique {
            None => Offered::Plain(item),
            Some(unique) => Offered::Unique(unique.candidate(item.bind(py))?),
        })
    }

    /// Puts an item: whether it went in, or is a duplicate; `None` if there is no room now.
    pub(super) fn try_put(
        &self,
        py: Python<'_>,
        offered: &mut Offered,
        otherwise: Otherwise,
    ) -> PyResult<Option<bool>> {
        let refusal = match (offered, &self.unique) {
            (Offered::Plain(item), _) => self.core.try_put(item.clone_ref(py)).err(),
            (Offered::Unique(candidate), Some(unique)) => {
                let put = objects::alone_with(unique.turn.bind(py), || {
                    let is_new = unique.enter(py, candidate)?;
                    let put = is_new.then(|| self.core.try_put(candidate.item.clone_ref(py).into_any()));
                    Ok::<_, PyErr>(put.map(|put| put.inspect_err(|_| candidate.item.get().leave())))
                })?;
                let Some(put) = put else {
                    return self.core.leave_out().map_or_else(|why| Err(self.refused(py, why)), |()| Ok(Some(false)));
                };
                put.err()
            }
            (Offered::Unique(_), None) => unreachable!("only a sub-queue without duplicates makes candidates"),
        };
        match refusal {
            None => Ok(Some(true)),
            Some((_item, refusal)) => self.no_room(py, refusal, otherwise).map(|()| None),
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
    fn put_slowly(&self, py: Python<'_>, item: Py<PyAny>, may_wait: MayWait) -> PyResult<bool> {
        let mut offered = self.offered(py, item)?;
        let put = until(py, self.core.putter(), may_wait, |_, otherwise| self.try_put(py, &mut offered, otherwise));
        match put {
            Ok(Some(is_new)) => Ok(is_new),
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
    /// Returns:
    ///     True, or False if ``unique`` leaves the item out. A put that waits for room checks this once there is room.
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
    ///     True
    ///     >>> mail.put("world", timeout=0.5)
    ///     True
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
    ) -> PyResult<bool> {
        let may_wait = match timeout {
            None if block && self.unique.is_none() => match self.core.try_put(item) {
                Ok(()) => return Ok(true),
                Err((item, _)) => return self.put_slowly(py, item, MayWait::for_ever()),
            },
            _ => MayWait::new(block, timeout)?,
        };
        self.put_slowly(py, item, may_wait)
    }

    /// Put an item at the end if there is room: ``put(item, block=False)``.
    ///
    /// Raises:
    ///     queue.Full: there is no room.
    ///     SubQueueRemoved, ShutDown: as :meth:`put`.
    fn put_nowait(&self, py: Python<'_>, item: Py<PyAny>) -> PyResult<bool> {
        if self.unique.is_some() {
            return self.put(py, item, false, None);
        }
        match self.core.try_put(item) {
            Ok(()) => Ok(true),
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
    ///     How many went in: all but duplicates, or the first ones if time ran out. The rest is rejected.
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
        let (core, count, mut duplicates) = (&self.core, all.len(), 0);
        let mut rest = all.into_iter();
        let mut next = None;
        let put = until(py, core.putter(), may_wait, |_, otherwise| {
            if self.unique.is_none() {
                return match core.try_put_many(&mut rest) {
                    Ok(()) => Ok(Some(())),
                    Err(refusal) => self.no_room(py, refusal, otherwise).map(|()| None),
                };
            }
            while let Some(item) = rest.as_slice().first() {
                let offered = match &mut next {
                    Some(offered) => offered,
                    None => next.insert(self.offered(py, item.clone_ref(py))?),
                };
                let Some(is_new) = self.try_put(py, offered, otherwise)? else { return Ok(None) };
                duplicates += usize::from(!is_new);
                (next, _) = (None, rest.next());
            }
            Ok(Some(()))
        });
        let accepted = count - rest.len() - duplicates;
        if rest.len() > 0 {
            core.reject(rest.len() as u64);
        }
        match put {
            Ok(_) => Ok(accepted),
            Err(error) => Err(errors::after_accepting(py, error, accepted)),
        }
    }
}
