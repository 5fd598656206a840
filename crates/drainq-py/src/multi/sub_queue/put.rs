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

/// The state of a call that puts many items: the items that are not in yet, and the counts.
pub(super) struct PutMany {
    rest: std::vec::IntoIter<Py<PyAny>>,
    /// The first of the rest, if the sub-queue leaves duplicates out and a try has found no room for this item.
    next: Option<Offered>,
    count: usize,
    duplicates: usize,
}

impl PutMany {
    /// Reads the items.
    pub(super) fn new(items: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut all = Vec::new();
        for item in arguments::items(items)? {
            all.try_reserve(1).map_err(|_| errors::no_memory(items.py()))?;
            all.push(item?.unbind());
        }
        Ok(Self { count: all.len(), rest: all.into_iter(), next: None, duplicates: 0 })
    }

    /// Puts the items that fit. If duplicates are left out, tries up to `most` items. Returns `None` if items are left.
    pub(super) fn try_now(
        &mut self,
        py: Python<'_>,
        sub_queue: &SubQueue,
        otherwise: Otherwise,
        most: usize,
    ) -> PyResult<Option<()>> {
        if sub_queue.unique.is_none() {
            return match sub_queue.core.try_put_many(&mut self.rest) {
                Ok(()) => Ok(Some(())),
                Err(refusal) => sub_queue.no_room(py, refusal, otherwise).map(|()| None),
            };
        }
        let enough = self.rest.len().saturating_sub(most);
        while let Some(item) = self.rest.as_slice().get(..self.rest.len() - enough).and_then(<[_]>::first) {
            let offered = match &mut self.next {
                Some(offered) => offered,
                None => self.next.insert(sub_queue.offered(py, item.clone_ref(py))?),
            };
            let Some(is_new) = sub_queue.try_put(py, offered, otherwise)? else { return Ok(None) };
            self.duplicates += usize::from(!is_new);
            (self.next, _) = (None, self.rest.next());
        }
        Ok((enough == 0).then_some(()))
    }

    /// Returns how many items went in.
    pub(super) fn accepted(&self) -> usize {
        self.count - self.rest.len() - self.duplicates
    }

    /// Returns the items that are not in.
    pub(super) fn rest(&self) -> &[Py<PyAny>] {
        self.rest.as_slice()
    }

    /// Counts the items that are not in as rejected.
    pub(super) fn reject_rest(&self, sub_queue: &SubQueue) {
        if self.rest.len() > 0 {
            sub_queue.core.reject(self.rest.len() as u64);
        }
    }
}

impl SubQueue {
    #[cold]
    pub(super) fn refused(&self, py: Python<'_>, refusal: PutRefusal) -> PyErr {
        if refusal == PutRefusal::NoMemory {
            return errors::no_memory(py); // the message would need memory
        }
        core_errors::of_put(py, &self.label.name(py), || self.core.settings().capacity, refusal)
    }

    /// Prepares an item for a put: makes its key, if the sub-queue leaves duplicates out.
    pub(super) fn offered(&self, py: Python<'_>, item: Py<PyAny>) -> PyResult<Offered> {
        Ok(match &self.unique {
            None => Offered::Plain(item),
            Some(unique) => Offered::Unique(unique.candidate(item.bind(py))?),
        })
    }

    /// Puts an item; returns true if it went in, false if it is a duplicate, `None` if there is no room now.
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

    /// Raises the refusal, unless the sub-queue is only full, or full without getters while the call gives up anyway.
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
        let mut call = PutMany::new(items)?;
        let put = until(py, self.core.putter(), may_wait, |_, otherwise| call.try_now(py, self, otherwise, usize::MAX));
        call.reject_rest(self);
        put.map(|_| call.accepted()).map_err(|error| errors::after_accepting(py, error, call.accepted()))
    }
}
