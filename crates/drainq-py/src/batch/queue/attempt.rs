//! `produce_async`, `offer_async` and `produce_many_async`: a coroutine tries to queue an item, and may wait for
//! room.
//!
//! The coroutines are `async def` functions of `drainq/aio.py`. An attempt finds the type, the partition and the weight
//! of the item once; each try is a single push that never waits.
//!
//! # Invariants
//! 1. An attempt ends once: accepted, rejected (closed), given up (counts as rejected), out of memory (not counted).

use super::BatchQueue;
use crate::arguments;
use crate::batch::coroutines;
use crate::batch::types::item::Item;
use crate::batch::waiting_tasks::TaskPlace;
use crate::errors;
use crate::waiting::WaitingPlace;
use crate::waiting::awaitable::{AsyncCall, QueueAwaitable};
use crate::waiting::blocking::Otherwise;
use crate::waiting::event_loops::EventLoops;
use drainq_core::batch::partition::FAST_SHARE;
use drainq_core::batch::{Key, Keyed, PartitionId, Rejection};
use drainq_core::ring::Refusal;
use drainq_core::sync::Mutex;
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use std::sync::Arc;

/// An item that is offered to a queue from a coroutine.
#[pyclass(module = "drainq", frozen)]
pub struct ProduceAttempt {
    queue: Py<BatchQueue>,
    key: Key,
    partition: PartitionId,
    /// The item's weight, if it does not count as one item.
    weight: Option<u64>,
    /// The item's object until the end of the attempt. Locked by attached threads; no object is dropped under the lock.
    object: Mutex<Option<Py<PyAny>>>,
}

impl ProduceAttempt {
    /// Counts the item as rejected, unless the attempt has ended.
    fn reject(&self, py: Python<'_>, reason: Rejection) {
        let object = self.object.lock().take();
        if object.is_some() {
            drop(object);
            self.queue.get().shared().reject(py, reason, self.weight.unwrap_or(1));
        }
    }
}

#[pymethods]
impl ProduceAttempt {
    /// Pushes the item if there is room: True if the queue accepted it, False if the queue is closed, None if the
    /// partition is full.
    fn try_now(&self, py: Python<'_>) -> PyResult<Option<bool>> {
        let shared = self.queue.get().shared();
        shared.start_threads(py)?;
        let object = self.object.lock().take();
        let Some(object) = object else { return Err(errors::bad_state("this attempt has ended")) };
        let item = Item::of(object.bind(py), self.key, self.weight)?;
        match shared.push(py, self.partition, item) {
            Ok(()) => Ok(Some(true)),
            Err((_, Refusal::Full)) => {
                *self.object.lock() = Some(object);
                Ok(None)
            }
            Err((_, Refusal::NoMemory)) => Err(errors::no_memory(py)),
            Err((item, Refusal::Closed)) => {
                let weight = item.weight();
                drop((item, object));
                shared.reject(py, Rejection::Closed, weight);
                Ok(Some(false))
            }
        }
    }

    /// Makes the coroutine that waits for room, at most `timeout` seconds: True if the queue accepted the item, False if
    /// the time ran out or the queue is closed.
    fn when_room(slf: Py<Self>, timeout: Option<f64>) -> PyResult<QueueAwaitable> {
        let place = {
            let attempt = slf.get();
            TaskPlace::for_room(attempt.queue.get().shared().process().waiting_tasks.clone(), attempt.partition)
        };
        QueueAwaitable::within(WhenRoom { attempt: slf, place }, timeout)
    }

    /// Ends the attempt without the item: its time ran out, or its task was cancelled.
    fn give_up(&self, py: Python<'_>) {
        self.reject(py, Rejection::Full);
    }

    /// Ends the attempt of a handler that would wait for itself.
    fn would_deadlock(&self, py: Python<'_>) {
        self.reject(py, Rejection::WouldDeadlock);
    }

    /// Whether a drain thread waits for the GIL while the partition fills up. The event loop then yields to it.
    fn is_crowded(&self) -> bool {
        let shared = self.queue.get().shared();
        let queue = shared.queue();
        shared.process().gil_yield.is_wanted() && queue.holds_one_in(queue.partition(self.partition), FAST_SHARE)
    }

    /// Shows the garbage collector the queue and the item: both may refer to the task that holds the attempt.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.queue)?;
        self.object.try_lock().map_or(Ok(()), |object| visit.call(&*object))
    }
}

/// The call that queues an item once there is room.
struct WhenRoom {
    attempt: Py<ProduceAttempt>,
    place: TaskPlace,
}

impl AsyncCall for WhenRoom {
    fn try_now(&mut self, py: Python<'_>, otherwise: Otherwise) -> PyResult<Option<Py<PyAny>>> {
        let attempt = self.attempt.get();
        let mut done = attempt.try_now(py)?;
        if done.is_none() && otherwise == Otherwise::GiveUp {
            attempt.give_up(py);
            done = Some(false);
        }
        Ok(done.map(|done| PyBool::new(py, done).to_owned().into_any().unbind()))
    }

    fn sleeps(&mut self) -> (&mut dyn WaitingPlace, &Arc<EventLoops>) {
        (&mut self.place, &self.attempt.get().queue.get().shared().process().waiting_tasks.event_loops)
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.attempt)
    }
}

#[pymethods]
impl BatchQueue {
    /// Queue one item from a coroutine: ``await queue.produce_async(item)``.
    ///
    /// On a ``BLOCKING`` queue this waits for room, while the event loop continues. Cancelling the wait queues
    /// nothing; the item then counts as rejected: ``full``.
    ///
    /// Args:
    ///     item: any object.
    /// Returns:
    ///     True if it was queued, False if there was no room (``IF_POSSIBLE``) or the queue is shut down; when awaited.
    /// Raises:
    ///     WouldDeadlock: awaited in an ``async def`` handler of this queue while the partition is full and the queue
    ///         is ``BLOCKING``.
    ///
    /// Example:
    ///     >>> import asyncio
    ///     >>> from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
    ///     >>> async def main():
    ///     ...     config = BatchQueueConfig(threads=ThreadPolicy.fixed(1), buffer_size=2, consumer=lambda batch: None)
    ///     ...     async with BatchQueue("coroutine", config) as queue:
    ///     ...         return [await queue.produce_async(number) for number in range(5)]
    ///     >>> asyncio.run(main())
    ///     [True, True, True, True, True]
    ///
    /// Source: ``produce`` in SkyWalking's ``BatchQueue.java``; the coroutine is drainq's.
    fn produce_async<'py>(slf: &Bound<'py, Self>, item: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let shared = slf.get().shared();
        coroutines::produce(slf.as_any(), item, None, shared.number(), shared.blocks())
    }

    /// Queue one item from a coroutine, waiting for room until a deadline, whatever the queue's strategy.
    ///
    /// Args:
    ///     item: any object.
    ///     timeout: seconds to wait for room; 0 never waits; None does the same as ``produce_async``.
    /// Returns:
    ///     True if it was queued, False if the time ran out or the queue is shut down; when awaited.
    /// Raises:
    ///     WouldDeadlock: as ``produce_async``.
    ///     ValueError: ``timeout`` is negative or not a number; when awaited.
    ///
    /// Example:
    ///     >>> import asyncio
    ///     >>> from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
    ///     >>> async def main():
    ///     ...     config = BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=lambda batch: None)
    ///     ...     async with BatchQueue("coroutine", config) as queue:
    ///     ...         return await queue.offer_async("item", timeout=0.5)
    ///     >>> asyncio.run(main())
    ///     True
    ///
    /// Source: as ``offer``.
    #[pyo3(signature = (item, timeout=None))]
    fn offer_async<'py>(
        slf: &Bound<'py, Self>,
        item: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let shared = slf.get().shared();
        coroutines::produce(slf.as_any(), item, timeout, shared.number(), shared.blocks())
    }

    /// Queue many items, in order, from a coroutine. The event loop continues meanwhile, also while there is room.
    ///
    /// A cancelled task has queued the items before the current one, which counts as rejected: ``full``.
    ///
    /// Args:
    ///     items: an iterable, but no str or bytes; an item is read after the one before it is queued.
    /// Returns:
    ///     How many were accepted, as ``produce_many`` does; when awaited.
    /// Raises:
    ///     TypeError: ``items`` is no iterable, or a str or bytes.
    ///     WouldDeadlock: as ``produce_async``; the items before are queued.
    ///     Exception: an error of the iteration; the items before it are queued.
    ///
    /// Example:
    ///     >>> import asyncio
    ///     >>> from drainq import BatchQueue
    ///     >>> async def main():
    ///     ...     async with BatchQueue("many", consumer=lambda batch: None, buffer_size=2) as queue:
    ///     ...         return await queue.produce_many_async(range(5))
    ///     >>> asyncio.run(main())
    ///     5
    fn produce_many_async<'py>(slf: &Bound<'py, Self>, items: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let shared = slf.get().shared();
        coroutines::produce_many(slf.as_any(), arguments::items(items)?, shared.number(), shared.blocks())
    }

    /// Makes the attempt of ``drainq/aio.py``.
    fn _attempt(slf: &Bound<'_, Self>, item: &Bound<'_, PyAny>) -> PyResult<ProduceAttempt> {
        let shared = slf.get().shared();
        let name = shared.routing.keys.name_of(item)?;
        let key = shared.key(&name)?;
        let partition = shared.routing.partition_of(shared.queue(), item, key)?;
        let weight = shared.routing.weight_of(item)?;
        let object = Mutex::new(Some(item.clone().unbind()));
        Ok(ProduceAttempt { queue: slf.clone().unbind(), key, partition, weight, object })
    }
}
