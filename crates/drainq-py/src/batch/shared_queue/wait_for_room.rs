//! A produce call that found its partition full: waits for room and checks for Ctrl-C meanwhile, or gives the item up.
//!
//! # Invariants
//! 1. If the time, Ctrl-C or the close ends the wait, the item is counted as rejected, once.

use super::SharedQueue;
use crate::batch::coroutines;
use crate::batch::types::item::Item;
use crate::core_errors::{self, InCall};
use crate::ctrl_c;
use crate::deadline::MayWait;
use crate::{errors, gil};
use drainq_core::batch::{Keyed, PartitionId, Rejection};
use drainq_core::ring::Refusal;
use pyo3::prelude::*;

impl SharedQueue {
    /// Queues an item whose partition was full: waits for room as long as `may_wait` allows. True if the item was
    /// queued.
    #[cold]
    pub(super) fn produce_when_room(
        &self,
        py: Python<'_>,
        partition: PartitionId,
        mut item: Item,
        may_wait: MayWait,
    ) -> PyResult<bool> {
        let deadline = match may_wait {
            MayWait::Until(deadline) if !deadline.passed() => deadline,
            _ => return self.produce_after_gil_yield(py, partition, item),
        };
        let weight = item.weight();
        self.check_not_draining_here(py, weight)?;
        let queue = self.queue().clone();
        let mut waiter = queue.wait_for_room(partition);
        loop {
            match self.push(py, partition, item) {
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
                Err((back, Refusal::NoMemory)) => {
                    drop(waiter);
                    drop(back);
                    return Err(errors::no_memory(py));
                }
                Err((back, Refusal::Full)) => item = back,
            }
            let interrupted = py.check_signals();
            if interrupted.is_err() || deadline.passed() {
                drop(waiter);
                drop(item);
                self.reject(py, Rejection::Full, weight);
                return interrupted.map(|()| false);
            }
            let slice = ctrl_c::slice(deadline);
            gil::released(py, || waiter.wait(slice));
        }
    }

    /// Rejects an item that found no room in time. If a drain thread waits for the GIL, the producer first yields the
    /// GIL to it and tries once more: the drain thread may make room.
    fn produce_after_gil_yield(&self, py: Python<'_>, partition: PartitionId, mut item: Item) -> PyResult<bool> {
        let (mut reason, weight) = (Rejection::Full, item.weight());
        if self.process().gil_yield.is_wanted() {
            self.process().gil_yield.yield_to_drain_thread(py);
            match self.push(py, partition, item) {
                Ok(()) => return Ok(true),
                Err((_, Refusal::NoMemory)) => return Err(errors::no_memory(py)),
                Err((back, refusal)) => (item, reason) = (back, refusal.into()),
            }
        }
        drop(item);
        self.reject(py, reason, weight);
        Ok(false)
    }

    fn check_not_draining_here(&self, py: Python<'_>, weight: u64) -> PyResult<()> {
        let event_loop = self.callables.event_loop.as_ref();
        let within = if event_loop.map_or(Ok(false), |event_loop| coroutines::is_here(event_loop.bind(py)))? {
            InCall::EventLoop
        } else if self.queue().is_draining_here() {
            InCall::Handler
        } else {
            return Ok(());
        };
        self.queue().count_rejected(Rejection::WouldDeadlock, weight);
        Err(core_errors::would_deadlock(py, self.name(), within))
    }
}
