//! The shutdown of a queue: by hand, and as a part of the interpreter's exit (`interpreter_exit.rs`).

use super::SharedQueue;
use crate::batch::interpreter_exit::{self, Live};
use crate::batch::types::item::Item;
use crate::ctrl_c;
use crate::deadline::Deadline;
use crate::gil;
use drainq_core::batch::config::EXIT_TIMEOUT;
use drainq_core::batch::drop_counts::DropReason;
use drainq_core::batch::flush::{Flush, Flushed};
use drainq_core::batch::shutdown::Cut;
use drainq_core::batch::{Key, Keyed};
use pyo3::prelude::*;
use pyo3::types::PyFloat;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl SharedQueue {
    /// Closes the queue, and wakes the tasks that wait.
    pub fn close(&self) {
        let process = self.process();
        process.queue.close();
        process.waiting_tasks.wake();
    }

    /// Ends the queue by `deadline`; true if nothing was abandoned, by this call or an earlier one.
    pub fn end(&self, py: Python<'_>, deadline: Deadline) -> PyResult<bool> {
        self.close();
        let process = self.process();
        let queue = process.queue.clone();
        let drained = ctrl_c::wait(py, deadline, |slice| queue.wait_drained(slice).then_some(()))?.is_some();
        let abandoned = if drained { 0 } else { self.hand_over(py, queue.cut()) };
        let is_clean = drained && !queue.is_cut();
        process.waiting_tasks.wake();
        if abandoned > 0 {
            self.drops.add(py, DropReason::Abandoned, abandoned);
        }
        if is_clean && process.is_started() && self.pool().is_some() {
            // The threads of a shared scheduler may be busy with other queues.
            self.call_on_close(py);
        }
        // Once the interpreter goes away the threads have ended, or never will.
        if is_clean && !interpreter_exit::is_over() {
            let callers = process.callers.clone();
            ctrl_c::wait(py, deadline, |slice| callers.wait_over(slice).then_some(()))?;
            self.join_threads(py, deadline)?;
        }
        self.drops.flush(py);
        Ok(is_clean)
    }

    /// Offers the items of a cut to `on_abandoned` of their handlers; returns how many are abandoned.
    fn hand_over(&self, py: Python<'_>, Cut { items, mut abandoned }: Cut<Item>) -> u64 {
        let mut by_key: BTreeMap<Key, Vec<Item>> = BTreeMap::new();
        items.into_iter().for_each(|item| by_key.entry(item.key()).or_default().push(item));
        for (key, mut items) in by_key {
            let consumer = self.callables.consumer.as_ref().map(|consumer| consumer.clone_ref(py));
            let Some(handler) = consumer.or_else(|| self.callables.handlers.get(py, key)) else { continue };
            let size = items.iter().map(Item::weight).sum();
            if handler.keeps(py, &mut items) {
                self.queue().keep_abandoned(key, size);
                abandoned -= size;
            }
        }
        abandoned
    }

    /// Calls `on_close` of the consumer and of all handlers, unless that was done or items are left.
    pub fn call_on_close(&self, py: Python<'_>) {
        let process = self.process();
        let callers = process.callers.clone();
        if !process.queue.is_drained() || !callers.claim_closing() {
            return;
        }
        process.queue.while_draining(|| {
            for handler in self.callables.with_on_close(py) {
                handler.close(py);
            }
        });
        callers.set_closed();
        process.waiting_tasks.wake();
    }

    /// Waits until the drain threads are gone; they have nothing left to do. A thread that is still there
    /// at the deadline, or when the wait is interrupted, is waited for by the next call.
    fn join_threads(&self, py: Python<'_>, deadline: Deadline) -> PyResult<()> {
        let current = gil::call_method(py.import("threading")?.as_any(), "current_thread", [])?;
        let threads: Vec<_> = self.process().threads.lock().iter().map(|thread| thread.clone_ref(py)).collect();
        for thread in threads {
            let thread = thread.bind(py);
            while !thread.is(&current) && gil::call_method(thread, "is_alive", [])?.is_truthy()? {
                if deadline.passed() {
                    return Ok(());
                }
                let slice = PyFloat::new(py, ctrl_c::slice(deadline).as_secs_f64());
                gil::call_method(thread, "join", [slice.as_any()])?;
            }
            // Dropped after the lock is released, because the end of a thread's object may run Python code.
            let _gone: Vec<_> = self.process().threads.lock().extract_if(.., |other| other.is(thread)).collect();
        }
        Ok(())
    }

    /// Returns the deadline until which the end of the process waits for this queue: this share of the queue's shutdown
    /// time, less the time that its flush at the exit has used already.
    fn exit_deadline(&self, share: f64) -> PyResult<Deadline> {
        let whole = self.shutdown_timeout.unwrap_or(EXIT_TIMEOUT.as_secs_f64());
        let used = Duration::from_micros(self.flushed_at_exit.load(Ordering::Relaxed)).as_secs_f64();
        Deadline::after("shutdown_timeout", Some((whole * share - used).max(0.0)))
    }
}

impl Live for SharedQueue {
    fn is_running(&self) -> bool {
        self.queue().is_running()
    }

    /// Waits for half of the time only: the rest belongs to the shutdown.
    fn flush_at_exit(&self, py: Python<'_>) -> PyResult<()> {
        let (started, deadline) = (Instant::now(), self.exit_deadline(0.5)?);
        let mut flush = Flush::of_queue(self.queue());
        let flushed =
            ctrl_c::wait(py, deadline, |slice| Some(flush.wait(slice)).filter(|state| *state != Flushed::NotYet));
        self.flushed_at_exit.store(started.elapsed().as_micros() as u64, Ordering::Relaxed);
        flushed.map(drop)
    }

    fn end_at_exit(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, self.exit_deadline(1.0)?).map(drop)
    }

    fn counted(&self) -> Option<&drainq_core::batch::BatchQueue<Item>> {
        Some(self.queue())
    }
}
