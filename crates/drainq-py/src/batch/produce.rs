//! The way of an item into its partition: key, partition, place, or the reason why not.
//!
//! # Invariants
//! 1. Every push of a queue, and its close, happens with the GIL held; waiting happens
//!    without it. So the GIL is the lock that `try_produce_serialised` asks for.

use super::drops::Reason;
use super::item::Item;
use super::policy::{PartitionSelector, Selection};
use super::shared::{Select, Shared};
use crate::deadline::Deadline;
use crate::{errors, gil};
use drainq_core::batch::{Key, PartitionId, Rejection};
use drainq_core::ring::{CLAIM, Refusal};
use pyo3::prelude::*;
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

impl Shared {
    /// The key of an item, made if its type is new.
    fn key_of(&self, item: &Bound<'_, PyAny>) -> PyResult<Key> {
        match self.keys.of_item(item)? {
            Ok(key) => Ok(key),
            Err(name) => self.key(name.bind(item.py())),
        }
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
                let chosen = theirs.bind(item.py()).call1((item, count))?;
                match chosen.extract::<usize>() {
                    Ok(partition) if partition < count => Ok(partition as PartitionId),
                    _ => Err(errors::bad_value(format!(
                        "the partition selector must return a number from 0 to {}, got {}",
                        count - 1,
                        chosen.repr()?
                    ))),
                }
            }
        }
    }

    /// Queues one item.
    pub fn produce(self: &Arc<Self>, object: &Bound<'_, PyAny>, patience: Patience) -> PyResult<bool> {
        let key = self.key_of(object)?;
        let partition = self.partition_of(object, key)?;
        if !self.process().is_started() {
            self.start_threads(object.py())?;
        }
        let item = Item::new(object, key)?;
        // SAFETY: the GIL is held (invariant 1).
        match unsafe { self.queue().try_produce_serialised(partition, item) } {
            Ok(()) => Ok(true),
            Err((item, Refusal::Full)) => self.produce_when_room(object.py(), partition, item, patience),
            Err((_, Refusal::Closed)) => {
                self.reject(object.py(), Rejection::Closed, 1);
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
            _ => {
                self.reject(py, Rejection::Full, 1);
                return Ok(false);
            }
        };
        self.check_not_draining_here(py, 1)?;
        let queue = self.queue().clone();
        let mut line = queue.wait_for_room(partition);
        loop {
            // SAFETY: the GIL is held (invariant 1).
            match unsafe { queue.try_produce_serialised(partition, item) } {
                Ok(()) => {
                    line.served();
                    return Ok(true);
                }
                Err((_, Refusal::Closed)) => {
                    self.reject(py, Rejection::Closed, 1);
                    return Ok(false);
                }
                Err((back, Refusal::Full)) => item = back,
            }
            let interrupted = py.check_signals();
            if interrupted.is_err() || deadline.passed() {
                self.reject(py, Rejection::Full, 1);
                return interrupted.map(|()| false);
            }
            let slice = deadline.slice();
            gil::released(py, || line.wait(slice));
        }
    }

    fn check_not_draining_here(&self, py: Python<'_>, items: u64) -> PyResult<()> {
        if !self.queue().is_draining_here() {
            return Ok(());
        }
        self.queue().count_rejected(Rejection::WouldDeadlock, items);
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
            Rejection::Full => self.drops.add(py, self.name(), Reason::Full, count),
            Rejection::Closed => self.drops.add(py, self.name(), Reason::Closed, count),
            Rejection::WouldDeadlock => {}
        }
    }

    /// Queues many items in order; returns how many were accepted.
    pub fn produce_many(self: &Arc<Self>, objects: &Bound<'_, PyAny>, patience: Patience) -> PyResult<u64> {
        let py = objects.py();
        if !self.process().is_started() {
            self.start_threads(py)?;
        }
        let mut accepted = 0;
        let mut run: Vec<Item> = Vec::new();
        let mut of_run = None;
        for object in objects.try_iter()? {
            let place = object.and_then(|object| {
                let key = self.key_of(&object)?;
                let partition = self.partition_of(&object, key)?;
                Ok((Item::new(&object, key)?, key, partition))
            });
            let (item, key, partition) = match place {
                Ok(place) => place,
                Err(error) => {
                    self.produce_run(py, &mut run, of_run, patience)?;
                    return Err(error);
                }
            };
            if of_run != Some((key, partition)) || run.len() >= CLAIM {
                accepted += self.produce_run(py, &mut run, of_run, patience)?;
                of_run = Some((key, partition));
            }
            run.push(item);
        }
        accepted += self.produce_run(py, &mut run, of_run, patience)?;
        Ok(accepted)
    }

    /// Queues items of one key and partition, leaving `run` empty.
    fn produce_run(
        &self,
        py: Python<'_>,
        run: &mut Vec<Item>,
        of_run: Option<(Key, PartitionId)>,
        patience: Patience,
    ) -> PyResult<u64> {
        let Some((key, partition)) = of_run else { return Ok(0) };
        let mut items = std::mem::take(run).into_iter();
        let (mut accepted, mut refusal) = self.queue().try_produce_many(partition, key, &mut items);
        // Where the bulk stopped for lack of room, the rest goes one by one, waiting or not.
        while let Some(item) = items.next() {
            if refusal != Some(Refusal::Full) || matches!(patience, Patience::None) {
                let reason = refusal.map_or(Rejection::Full, Rejection::from);
                self.reject(py, reason, 1 + items.len() as u64);
                return Ok(accepted as u64);
            }
            if self.produce_when_room(py, partition, item, patience)? {
                accepted += 1;
            }
            let (more, why) = self.queue().try_produce_many(partition, key, &mut items);
            accepted += more;
            refusal = why;
        }
        Ok(accepted as u64)
    }
}
