//! The way of an item into its partition: key, partition, place, or the reason why not.
//!
//! # Invariants
//! 1. Every push of a queue, and its close, happens with the GIL held; waiting happens
//!    without it. So the GIL is the lock that `try_produce_serialised` asks for.

use super::fast_path;
use crate::batch::drops::Reason;
use crate::batch::policy::{PartitionSelector, Selection};
use crate::batch::shared::{Select, Shared};
use crate::batch::types::item::Item;
use crate::deadline::{self, Deadline};
use crate::fork::Generation;
use crate::{errors, gil};
use drainq_core::batch::config::MAX_WEIGHT;
use drainq_core::batch::{Key, Keyed, PartitionId, Rejection};
use drainq_core::ring::{CLAIM, Refusal};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList};
use std::mem;
use std::sync::Arc;

/// What to do if there is no room.
#[derive(Clone, Copy)]
pub enum Patience {
    /// Give up.
    None,
    /// Wait until then.
    Until(Deadline),
}

impl Patience {
    /// What the queue's strategy says.
    pub fn of(shared: &Shared) -> Self {
        if shared.blocks() { Self::Until(Deadline::never()) } else { Self::None }
    }
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
    /// A word for the ring, with the item's weight where that counts.
    fn item(&self, object: &Bound<'_, PyAny>, key: Key) -> PyResult<Item> {
        let Some(len_of) = &self.len_of else { return Item::new(object, key) };
        let rows = gil::call(len_of.bind(object.py()), [object])?;
        Item::weighed(object, key, weight(&rows)?)
    }

    fn partition_of(&self, item: &Bound<'_, PyAny>, key: Key) -> PyResult<PartitionId> {
        let count = self.queue().partition_count();
        match &self.select {
            Select::Sticky => Ok(self.queue().partition_of(key)),
            Select::Ours(ours) => match &ours.get().0 {
                Selection::TypeHash => Ok(self.queue().partition_of(key)),
                _ => Ok(PartitionSelector::__call__(ours.get(), item, count)? as PartitionId),
            },
            Select::Theirs(theirs) => {
                let chosen = gil::call(theirs.bind(item.py()), [item, count.into_pyobject(item.py())?.as_any()])?;
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

    /// Queues one item.
    pub fn produce(self: &Arc<Self>, object: &Bound<'_, PyAny>, patience: Patience) -> PyResult<bool> {
        let name = self.keys.name_of(object)?;
        let key = self.key(&name)?;
        let partition = self.partition_of(object, key)?;
        if !self.process().is_started() {
            self.start_threads(object.py())?;
        }
        let item = self.item(object, key)?;
        let weight = item.weight();
        // SAFETY: the GIL is held (invariant 1).
        match unsafe { self.queue().try_produce_serialised(partition, item) } {
            Ok(()) => {
                self.remember(&name, key);
                self.hand_over_if_due(object.py(), self.queue().partition(partition));
                Ok(true)
            }
            Err((item, Refusal::Full)) => self.produce_when_room(object.py(), partition, item, patience),
            Err((_, Refusal::Closed)) => {
                self.reject(object.py(), Rejection::Closed, weight);
                Ok(false)
            }
        }
    }

    #[cold]
    fn produce_when_room(
        &self,
        py: Python<'_>,
        partition: PartitionId,
        mut item: Item,
        patience: Patience,
    ) -> PyResult<bool> {
        let deadline = match patience {
            Patience::Until(deadline) if !deadline.passed() => deadline,
            _ => return Ok(self.produce_after_handing_over(py, partition, item)),
        };
        let weight = item.weight();
        self.check_not_draining_here(py, weight)?;
        let (queue, begun_in) = (self.queue().clone(), Generation::now());
        let mut line = queue.wait_for_room(partition);
        loop {
            // SAFETY: the GIL is held (invariant 1).
            match unsafe { queue.try_produce_serialised(partition, item) } {
                Ok(()) => {
                    line.served();
                    return Ok(true);
                }
                Err((back, Refusal::Closed)) => {
                    drop(line);
                    drop(back);
                    self.reject(py, Rejection::Closed, weight);
                    return Ok(false);
                }
                Err((back, Refusal::Full)) => item = back,
            }
            let interrupted = py.check_signals();
            if begun_in.is_past() {
                // The parent's line; its lock may be taken.
                mem::forget(line);
                return Err(deadline::forked(py));
            }
            if interrupted.is_err() || deadline.passed() {
                drop(line);
                drop(item);
                self.reject(py, Rejection::Full, weight);
                return interrupted.map(|()| false);
            }
            let slice = deadline.slice();
            gil::released(py, || line.wait(slice));
        }
    }

    /// No room, and no time to wait: unless a drain thread waits for the GIL, which is what
    /// keeps it from making room, that is the end of it.
    fn produce_after_handing_over(&self, py: Python<'_>, partition: PartitionId, mut item: Item) -> bool {
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

    fn reject(&self, py: Python<'_>, reason: Rejection, count: u64) {
        self.queue().count_rejected(reason, count);
        match reason {
            Rejection::Full => self.drops.add(py, Reason::Full, count),
            Rejection::Closed => self.drops.add(py, Reason::Closed, count),
            Rejection::WouldDeadlock => {}
        }
    }

    /// Queues many items in order; returns how many were accepted.
    pub fn produce_many(self: &Arc<Self>, objects: &Bound<'_, PyAny>, patience: Patience) -> PyResult<u64> {
        if !self.process().is_started() {
            self.start_threads(objects.py())?;
        }
        match objects.cast_exact::<PyList>() {
            Ok(list) if self.goes_by_type() => self.produce_list(list, patience),
            _ => gil::items(objects)?.map(|object| self.produce_one(&object?, patience)).sum(),
        }
    }

    fn produce_one(self: &Arc<Self>, object: &Bound<'_, PyAny>, patience: Patience) -> PyResult<u64> {
        Ok(u64::from(self.produce_calm(object) || self.produce_attentively(object) || self.produce(object, patience)?))
    }

    /// Queues the items of a list: those of one type that follow each other at once. A list is read
    /// by index, which costs less than an iterator.
    fn produce_list(self: &Arc<Self>, list: &Bound<'_, PyList>, patience: Patience) -> PyResult<u64> {
        let (mut accepted, mut index) = (0, 0);
        while index < list.len() {
            let quick = self.produce_run_calm(list, index);
            index += quick;
            accepted += quick as u64;
            // Not quick is what comes now: of a new type, of another type, or in want of room.
            if quick > 0 {
                continue;
            }
            let object = list.get_item(index)?;
            let class = self.keys.name_of(&object)?;
            let key = self.key(&class)?;
            let mut run = vec![Item::new(&object, key)?];
            index += 1 + self.extend_run(list, index + 1, key, &mut run);
            accepted += self.produce_run(list.py(), run, self.queue().partition_of(key), patience)?;
            self.remember(&class, key);
        }
        Ok(accepted)
    }

    /// Takes further items of the type that the run is of from the list; returns how many.
    ///
    /// Nothing in here runs Python code, so the list stays as it is meanwhile.
    fn extend_run(&self, list: &Bound<'_, PyList>, from: usize, key: Key, run: &mut Vec<Item>) -> usize {
        let end = list.len().min(from + CLAIM);
        for index in from..end {
            let object = fast_path::at(list, index);
            if self.keys.of_type(object.get_type_ptr().addr()) != Some(key) {
                return index - from;
            }
            let Ok(item) = Item::new(&object, key) else { return index - from };
            run.push(item);
        }
        end.saturating_sub(from)
    }

    /// Queues items of one key and partition.
    fn produce_run(&self, py: Python<'_>, run: Vec<Item>, partition: PartitionId, patience: Patience) -> PyResult<u64> {
        let mut items = run.into_iter();
        // SAFETY: the GIL is held (invariant 1).
        let bulk = |items: &mut _| unsafe { self.queue().try_produce_many_serialised(partition, items) };
        let (mut accepted, mut refusal) = bulk(&mut items);
        self.hand_over_if_due(py, self.queue().partition(partition));
        // Where the bulk stopped for lack of room, the rest goes one by one, waiting or not.
        while let Some(item) = items.next() {
            if refusal != Some(Refusal::Full)
                || (matches!(patience, Patience::None) && !self.process().gil_yield.is_wanted())
            {
                drop(item);
                let reason = refusal.map_or(Rejection::Full, Rejection::from);
                self.reject(py, reason, 1 + items.len() as u64);
                return Ok(accepted as u64);
            }
            if self.produce_when_room(py, partition, item, patience)? {
                accepted += 1;
            }
            let (more, why) = bulk(&mut items);
            accepted += more;
            refusal = why;
        }
        Ok(accepted as u64)
    }
}
