//! `put`, `put_nowait`, `put_many` and their coroutines: items into a set queue.

use super::SetQueue;
use super::state::WaitFor;
use super::waiting::{SetWait, release};
use crate::deadline::MayWait;
use crate::sources::identity::{Identity, KnownItem};
use crate::waiting::WaitingPlace;
use crate::waiting::awaitable::{AsyncCall, IN_A_TURN, QueueAwaitable};
use crate::waiting::blocking::{Otherwise, until};
use crate::waiting::event_loops::EventLoops;
use crate::{arguments, errors};
use drainq_core::wait::tickets::Request;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyIterator};
use std::sync::Arc;

impl SetQueue {
    /// Puts an item; returns true if it went in, false if an equal one is known, `None` if there is no room now.
    #[inline]
    fn try_put(&self, py: Python<'_>, identity: &mut Identity, item: &Py<PyAny>) -> PyResult<Option<bool>> {
        self.forget_due(py)?;
        let (mut state, found) = self.locate(py, identity)?;
        if state.closed {
            drop(state);
            return Err(errors::SHUT_DOWN.error(py, "the queue is shut down"));
        }
        if found.is_some() {
            state.duplicates += 1;
            drop(state);
            return Ok(Some(false));
        }
        if state.room() == 0 {
            drop(state);
            return Ok(None);
        }
        if !state.queue.reserve() {
            drop(state);
            return Err(errors::no_memory(py));
        }
        let item = self.key.is_some().then(|| item.clone_ref(py));
        state.queue.push(identity.hash(), KnownItem { key: identity.key(py), item });
        state.put += 1;
        state.notify_duplicates(identity.hash());
        release(&self.state, state);
        Ok(Some(true))
    }

    /// Puts an item, and waits for room if the call may wait; `None` if there was none in time.
    #[inline]
    fn put_until(&self, py: Python<'_>, item: &Py<PyAny>, may_wait: MayWait) -> PyResult<Option<bool>> {
        let mut identity = self.identity(item.bind(py))?;
        match self.try_put(py, &mut identity, item)? {
            None => {
                let putter = self.putter(&identity);
                until(py, putter, may_wait, |_, _| self.try_put(py, &mut identity, item))
            }
            done => Ok(done),
        }
    }

    /// Makes a waiter for room, which is also woken when an item with the same hash comes.
    fn putter(&self, identity: &Identity) -> SetWait {
        SetWait::new(&self.state, WaitFor::Room, Request { need: 1, tag: identity.hash() })
    }

    fn full_error(&self, py: Python<'_>) -> PyErr {
        let capacity = self.state.lock().capacity;
        errors::FULL.error(py, format!("the queue holds {capacity} items, its capacity"))
    }
}

/// The call that puts an item from a coroutine.
struct SetPut {
    queue: Py<SetQueue>,
    item: Py<PyAny>,
    /// Made by the first try, because making it runs the code of the item's owner.
    started: Option<(Identity, SetWait)>,
}

impl AsyncCall for SetPut {
    fn try_now(&mut self, py: Python<'_>, _otherwise: Otherwise) -> PyResult<Option<Py<PyAny>>> {
        let queue = self.queue.get();
        let started = match &mut self.started {
            Some(started) => started,
            None => {
                let identity = queue.identity(self.item.bind(py))?;
                let putter = queue.putter(&identity);
                self.started.insert((identity, putter))
            }
        };
        let put = queue.try_put(py, &mut started.0, &self.item)?;
        Ok(put.map(|put| PyBool::new(py, put).to_owned().into_any().unbind()))
    }

    fn sleeps(&mut self) -> (&mut dyn WaitingPlace, &Arc<EventLoops>) {
        let (_, putter) = self.started.as_mut().expect("a call is tried before it sleeps");
        (putter, &self.queue.get().event_loops)
    }

    fn timed_out(&self, py: Python<'_>) -> PyErr {
        self.queue.get().full_error(py)
    }

    fn method(&self) -> Option<String> {
        Some("SetQueue.put_async".to_owned())
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.queue)?;
        visit.call(&self.item)?;
        self.started.as_ref().map_or(Ok(()), |(identity, _)| identity.traverse(visit))
    }
}

/// The call that puts many items from a coroutine.
struct SetPutMany {
    queue: Py<SetQueue>,
    items: Py<PyIterator>,
    /// The item that is put next, if a try has found no room for it.
    next: Option<(Py<PyAny>, Identity)>,
    /// The waiter for its room, which keeps its place in the line from try to try.
    putter: Option<SetWait>,
    added: usize,
    gives_way: bool,
}

impl SetPutMany {
    /// Puts up to [`IN_A_TURN`] items; returns `None` if items are left.
    fn put_some(&mut self, py: Python<'_>) -> PyResult<Option<()>> {
        let queue = self.queue.get();
        for _ in 0..IN_A_TURN {
            let (item, identity) = match &mut self.next {
                Some(next) => next,
                None => match self.items.bind(py).clone().next().transpose()? {
                    None => return Ok(Some(())),
                    Some(item) => {
                        let identity = queue.identity(&item)?;
                        self.next.insert((item.unbind(), identity))
                    }
                },
            };
            let Some(is_new) = queue.try_put(py, identity, item)? else {
                self.putter.get_or_insert_with(|| queue.putter(identity));
                return Ok(None);
            };
            self.added += usize::from(is_new);
            (self.next, self.putter) = (None, None);
        }
        self.gives_way = true;
        Ok(None)
    }
}

impl AsyncCall for SetPutMany {
    fn try_now(&mut self, py: Python<'_>, otherwise: Otherwise) -> PyResult<Option<Py<PyAny>>> {
        self.gives_way = false;
        let put = self.put_some(py).map_err(|error| self.marked(py, error))?;
        if put.is_none() && (otherwise == Otherwise::Wait || self.gives_way) {
            return Ok(None);
        }
        Ok(Some(self.added.into_pyobject(py)?.into_any().unbind()))
    }

    fn gives_way(&self) -> bool {
        self.gives_way
    }

    fn sleeps(&mut self) -> (&mut dyn WaitingPlace, &Arc<EventLoops>) {
        let putter = self.putter.as_mut().expect("a call that waits has found no room");
        (putter, &self.queue.get().event_loops)
    }

    fn marked(&self, py: Python<'_>, error: PyErr) -> PyErr {
        errors::after_accepting(py, error, self.added)
    }

    fn method(&self) -> Option<String> {
        Some("SetQueue.put_many_async".to_owned())
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.queue)?;
        visit.call(&self.items)?;
        self.next.as_ref().map_or(Ok(()), |(item, identity)| {
            visit.call(item)?;
            identity.traverse(visit)
        })
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
    fn put(
        &self,
        py: Python<'_>,
        item: Py<PyAny>,
        #[pyo3(from_py_with = arguments::block)] block: bool,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<bool> {
        self.put_until(py, &item, MayWait::new(block, timeout)?)?.ok_or_else(|| self.full_error(py))
    }

    /// Put an item at the end from a coroutine, waiting for room if there is none: ``await queue.put_async(item)``.
    ///
    /// The event loop continues during the wait. Cancelling the wait puts nothing.
    ///
    /// Args:
    ///     item, timeout: as :meth:`put`.
    /// Returns:
    ///     What :meth:`put` returns, when awaited.
    /// Raises:
    ///     queue.Full, TypeError, ShutDown, MemoryError: as :meth:`put`, when awaited.
    ///
    /// Example:
    ///     >>> import asyncio
    ///     >>> from drainq import SetQueue
    ///     >>> queue = SetQueue()
    ///     >>> asyncio.run(queue.put_async("a")), asyncio.run(queue.put_async("a"))
    ///     (True, False)
    #[pyo3(signature = (item, timeout=None))]
    fn put_async(
        slf: Py<Self>,
        item: Py<PyAny>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<QueueAwaitable> {
        QueueAwaitable::within(SetPut { queue: slf, item, started: None }, timeout)
    }

    /// Put an item if there is room: ``put(item, block=False)``.
    fn put_nowait(&self, py: Python<'_>, item: Py<PyAny>) -> PyResult<bool> {
        self.put(py, item, false, None)
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
                match self.put_until(items.py(), &item?.unbind(), may_wait)? {
                    Some(is_new) => added += usize::from(is_new),
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

    /// Put items in their order from a coroutine; duplicates are left out: ``await queue.put_many_async(items)``.
    ///
    /// Cancelling leaves in what went in.
    ///
    /// Args:
    ///     items: an iterable of items; each is read after the one before it went in.
    ///     timeout: seconds to wait for room, in all; 0 puts what fits now, and ``None`` waits for ever.
    /// Returns:
    ///     What :meth:`put_many` returns, when awaited.
    /// Raises:
    ///     ShutDown: the queue is shut down. Of this and any other exception (a cancellation, one from the
    ///         iterable or a key) the attribute ``accepted`` says how many items had gone in before.
    ///     ValueError: ``timeout`` is negative or not a number.
    ///
    /// Example:
    ///     >>> import asyncio
    ///     >>> from drainq import SetQueue
    ///     >>> asyncio.run(SetQueue().put_many_async(["a", "b", "a"]))
    ///     2
    #[pyo3(signature = (items, timeout=None))]
    fn put_many_async(
        slf: Py<Self>,
        items: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<QueueAwaitable> {
        let items = arguments::items(items)?.unbind();
        let call = SetPutMany { queue: slf, items, next: None, putter: None, added: 0, gives_way: false };
        QueueAwaitable::within(call, timeout)
    }
}
