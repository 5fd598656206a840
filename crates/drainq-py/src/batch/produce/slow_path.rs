//! The slow path: an item's key, its partition, its weight; then a slot, a wait for room, or the reason why not.
//!
//! # Invariants
//! 1. Every push of a queue, and its close, happens with the GIL held; waiting happens
//!    without it. So the GIL is the lock that `try_produce_serialised` asks for.

use crate::batch::drops::Reason;
use crate::batch::policy::PartitionSelector;
use crate::batch::shared::{Selector, Shared};
use crate::batch::types::item::Item;
use crate::deadline::{self, Deadline};
use crate::fork::Generation;
use crate::{errors, gil};
use drainq_core::batch::config::MAX_WEIGHT;
use drainq_core::batch::{Key, Keyed, PartitionId, Rejection};
use drainq_core::ring::Refusal;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyBool;
use std::mem;
use std::sync::Arc;

/// What a produce call does if the partition is full.
#[derive(Clone, Copy)]
pub enum WhenFull {
    /// Rejects the item.
    GiveUp,
    /// Waits for room until then.
    WaitUntil(Deadline),
}

/// The number of rows that `len_of` says an item counts for.
fn weight(rows: &Bound<'_, PyAny>) -> PyResult<u64> {
    let py = rows.py();
    let whole = if rows.is_instance_of::<PyBool>() { Ok(None) } else { rows.extract::<u64>().map(Some) };
    match whole {
        Ok(Some(weight)) if weight <= MAX_WEIGHT => return Ok(weight),
        // What its `__index__` raised.
        Err(error) if !error.is_instance_of::<PyTypeError>(py) && !error.is_instance_of::<PyOverflowError>(py) => {
            return Err(error);
        }
        _ => {}
    }
    Err(errors::bad_value(format!(
        "len_of must say for how many rows an item counts, a whole number from 0 to {MAX_WEIGHT}, got {}",
        errors::shown(rows)?
    )))
}

impl Shared {
    /// What `produce` does if the partition is full, by the queue's strategy.
    pub fn when_full(&self) -> WhenFull {
        if self.blocks() { WhenFull::WaitUntil(Deadline::never()) } else { WhenFull::GiveUp }
    }

    /// Whether an item's class alone decides its key, its partition and its weight (`route_cache.rs`, invariant 1).
    pub(super) fn routes_by_class(&self) -> bool {
        matches!(self.selector, Selector::ByType) && self.len_of.is_none() && self.keys.are_types()
    }

    /// Adds a class to the route cache, if the class alone decides where its items go. `key` is the key of
    /// `class`, which `types/keys.rs` keeps alive. It is not read from an item, whose class may be another by now.
    pub(super) fn cache_route(&self, class: &Bound<'_, PyAny>, key: Key) {
        let process = self.process();
        let is_new = self.routes.find(class.as_ptr().cast()).is_none();
        if self.routes_by_class() && process.is_started() && is_new {
            let partition = process.queue.partition(process.queue.partition_of(key));
            // SAFETY: the partition belongs to the queue of this process (`route_cache.rs`, invariant 2).
            unsafe { self.routes.add(class, key, partition) };
        }
    }

    /// The ring item of an object, with the object's weight where `len_of` is given.
    fn ring_item(&self, object: &Bound<'_, PyAny>, key: Key) -> PyResult<Item> {
        let Some(len_of) = &self.len_of else { return Item::new(object, key) };
        let rows = gil::call(len_of.bind(object.py()), [object])?;
        Item::weighed(object, key, weight(&rows)?)
    }

    fn partition_of(&self, item: &Bound<'_, PyAny>, key: Key) -> PyResult<PartitionId> {
        let count = self.queue().partition_count();
        match &self.selector {
            Selector::ByType => Ok(self.queue().partition_of(key)),
            Selector::BuiltIn(selector) => Ok(PartitionSelector::__call__(selector.get(), item, count)? as PartitionId),
            Selector::Callable(selector) => {
                let chosen = gil::call(selector.bind(item.py()), [item, count.into_pyobject(item.py())?.as_any()])?;
                match chosen.extract::<usize>() {
                    Ok(partition) if partition < count => Ok(partition as PartitionId),
                    _ => Err(errors::bad_value(format!(
                        "the partition selector must return a number from 0 to {}, got {}",
                        count - 1,
                        errors::shown(&chosen)?
                    ))),
                }
            }
        }
    }

    /// Queues one item: true if it was accepted.
    pub fn produce(self: &Arc<Self>, object: &Bound<'_, PyAny>, when_full: WhenFull) -> PyResult<bool> {
        let name = self.keys.name_of(object)?;
        let key = self.key(&name)?;
        let partition = self.partition_of(object, key)?;
        if !self.process().is_started() {
            self.start_threads(object.py())?;
        }
        let item = self.ring_item(object, key)?;
        let weight = item.weight();
        // SAFETY: the GIL is held (invariant 1).
        match unsafe { self.queue().try_produce_serialised(partition, item) } {
            Ok(()) => {
                self.cache_route(&name, key);
                self.yield_gil_if_due(object.py(), self.queue().partition(partition));
                Ok(true)
            }
            Err((item, Refusal::Full)) => self.produce_when_room(object.py(), partition, item, when_full),
            Err((_, Refusal::Closed)) => {
                self.reject(object.py(), Rejection::Closed, weight);
                Ok(false)
            }
        }
    }

    /// Queues an item whose partition was full: waits for room as `when_full` says. True if the item was queued.
    #[cold]
    pub(super) fn produce_when_room(
        &self,
        py: Python<'_>,
        partition: PartitionId,
        mut item: Item,
        when_full: WhenFull,
    ) -> PyResult<bool> {
        let deadline = match when_full {
            WhenFull::WaitUntil(deadline) if !deadline.passed() => deadline,
            _ => return Ok(self.produce_after_gil_yield(py, partition, item)),
        };
        let weight = item.weight();
        self.check_not_draining_here(py, weight)?;
        let (queue, begun_in) = (self.queue().clone(), Generation::now());
        let mut waiter = queue.wait_for_room(partition);
        loop {
            // SAFETY: the GIL is held (invariant 1).
            match unsafe { queue.try_produce_serialised(partition, item) } {
                Ok(()) => {
                    waiter.served();
                    return Ok(true);
                }
                Err((back, Refusal::Closed)) => {
                    drop(waiter);
                    drop(back);
                    self.reject(py, Rejection::Closed, weight);
                    return Ok(false);
                }
                Err((back, Refusal::Full)) => item = back,
            }
            let interrupted = py.check_signals();
            if begun_in.is_past() {
                // The waiter is the parent's; its lock may be taken.
                mem::forget(waiter);
                return Err(deadline::forked(py));
            }
            if interrupted.is_err() || deadline.passed() {
                drop(waiter);
                drop(item);
                self.reject(py, Rejection::Full, weight);
                return interrupted.map(|()| false);
            }
            let slice = deadline.slice();
            gil::released(py, || waiter.wait(slice));
        }
    }

    /// Rejects an item for which there is no room and no time to wait. If a drain thread waits for the GIL,
    /// the producer first yields the GIL to it and tries once more: the drain thread may make room.
    fn produce_after_gil_yield(&self, py: Python<'_>, partition: PartitionId, mut item: Item) -> bool {
        let (mut reason, weight) = (Rejection::Full, item.weight());
        if self.process().gil_yield.is_wanted() && !self.queue().is_draining_here() {
            self.process().gil_yield.yield_to_drain_thread(py);
            // SAFETY: the GIL is held (invariant 1).
            match unsafe { self.queue().try_produce_serialised(partition, item) } {
                Ok(()) => return true,
                Err((back, refusal)) => (item, reason) = (back, refusal.into()),
            }
        }
        drop(item);
        self.reject(py, reason, weight);
        false
    }

    fn check_not_draining_here(&self, py: Python<'_>, weight: u64) -> PyResult<()> {
        if !self.queue().is_draining_here() {
            return Ok(());
        }
        self.queue().count_rejected(Rejection::WouldDeadlock, weight);
        Err(errors::WOULD_DEADLOCK.error(
            py,
            format!(
                "a handler of queue {:?} waits for room in a full partition of the same queue, which only its own \
                 return can make; use offer(item, timeout=0), IF_POSSIBLE, or a larger buffer_size",
                self.name()
            ),
        ))
    }

    /// Counts items that were not accepted, and reports them to `on_drop`.
    pub(super) fn reject(&self, py: Python<'_>, reason: Rejection, count: u64) {
        self.queue().count_rejected(reason, count);
        match reason {
            Rejection::Full => self.drops.add(py, Reason::Full, count),
            Rejection::Closed => self.drops.add(py, Reason::Closed, count),
            Rejection::WouldDeadlock => {}
        }
    }
}
