//! The state that a queue's object and its drain threads share, in named parts.
//!
//! | part | what it decides |
//! | --- | --- |
//! | `routing.rs` | the type, the partition and the weight of an item |
//! | `batch_callables.rs` | the callables that get the batches |
//! | `per_process.rs` | the core's queue and its threads, which a forked child starts anew |
//! | `shared_queue/rebalance.rs` | the balancer |
//! | `drop_reports.rs` | the reports of items that are not handled |
//!
//! The threads keep the `SharedQueue` alive, not the object. When the last reference to the object goes, the queue
//! is closed; it delivers the items that it has, its threads end, and the `SharedQueue` goes with them.

mod drain_threads;
mod metric_samples;
mod produce;
mod produce_many;
#[cfg_attr(not(Py_GIL_DISABLED), path = "push_with_gil.rs")]
#[cfg_attr(Py_GIL_DISABLED, path = "push_without_gil.rs")]
mod push;
mod rebalance;
mod shutdown;
mod wait_for_room;

use crate::batch::batch_callables::BatchCallables;
use crate::batch::config::BatchConfig;
use crate::batch::drain_balancer::UserBalancer;
use crate::batch::drop_reports::DropReports;
use crate::batch::losses;
use crate::batch::per_process::Process;
use crate::batch::routing::Routing;
use crate::batch::shared_scheduler::Pool;
use crate::batch::types::item::Item;
use crate::fork::{self, ForkCell, Renew};
use crate::gil;
use drainq_core::batch::{BatchQueue, BufferStrategy, Grouping, Settings};
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyWeakrefReference};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A queue, as its threads see it.
pub struct SharedQueue {
    /// The type, the partition and the weight of an item.
    pub routing: Routing,
    process: ForkCell<Process>,
    pool: Option<Arc<Pool>>,
    settings: Settings,
    grouping: Grouping,
    /// The callables that get the batches.
    pub callables: BatchCallables,
    /// The user's balancer.
    pub balancing: Option<UserBalancer>,
    /// Seconds that a shutdown waits by default; `None` has no limit.
    pub shutdown_timeout: Option<f64>,
    /// Microseconds that the flush at the end of the process took.
    flushed_at_exit: AtomicU64,
    /// The items that are not handled, for `on_drop`.
    pub drops: Arc<DropReports>,
    /// A weak reference on the queue's object, which closes the queue at the object's end.
    guard: PyOnceLock<Py<PyWeakrefReference>>,
    /// The number of the queue in this program.
    number: u64,
    /// Whether the call that makes the queue's object has ended.
    is_made: AtomicBool,
}

impl SharedQueue {
    /// Makes a queue by this configuration. Its threads are not started.
    pub fn new(py: Python<'_>, name: &str, config: BatchConfig) -> PyResult<Arc<Self>> {
        let (mut settings, grouping) = (config.settings()?, config.grouping());
        let interval = config.interval();
        let pool = match config.pool {
            Some(pool) => Some(Pool::get_or_create(py, &pool, config.threads, config.policy)?),
            None => None,
        };
        let routing = Routing::new(py, config.partition_selector, config.dispatch_key, config.len_of);
        settings.sticky = routing.is_sticky();
        static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let shared = Self {
            callables: BatchCallables::new(py, config.consumer, config.on_error, config.r#loop, number)?,
            routing,
            process: ForkCell::new(Process::new(name, settings.clone(), grouping, pool.as_deref())),
            pool,
            settings,
            grouping,
            balancing: config.balancer.map(|balancer| UserBalancer { balancer, interval }),
            shutdown_timeout: config.shutdown_timeout,
            flushed_at_exit: AtomicU64::new(0),
            drops: DropReports::new(name, config.on_drop),
            guard: PyOnceLock::new(),
            number,
            is_made: AtomicBool::new(false),
        };
        shared.queue().report_idle_passes(shared.callables.consumer_wants_idle());
        Ok(Arc::new(shared))
    }

    /// Closes the queue at the end of `object`: when its last reference goes, or when the garbage collector finds it in
    /// a cycle. The collector then keeps the callables that the queue still has to call (`caller_count.rs`).
    pub fn end_with(self: &Arc<Self>, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = object.py();
        let weak = Arc::downgrade(self);
        let close = PyCFunction::new_closure(py, None, None, move |_, _| {
            if let Some(shared) = weak.upgrade() {
                shared.queue().close();
            }
        })?;
        let guard = PyWeakrefReference::new_with(object, close)?.unbind();
        // A queue has one object.
        let _ = self.guard.set(py, guard);
        Ok(())
    }

    /// Records that the call that makes the queue's object has ended.
    pub fn set_made(&self) {
        self.is_made.store(true, Ordering::Release);
    }

    /// Whether the call that makes the queue's object has ended.
    pub fn is_made(&self) -> bool {
        self.is_made.load(Ordering::Acquire)
    }

    /// Returns the queue of this process.
    #[inline]
    pub fn process(&self) -> &Process {
        self.process.get()
    }

    /// Returns the core's queue.
    #[inline]
    pub fn queue(&self) -> &Arc<BatchQueue<Item>> {
        &self.process().queue
    }

    /// Returns the pool whose drain threads the queue shares with others.
    pub fn pool(&self) -> Option<&Pool> {
        self.pool.as_deref()
    }

    /// Returns the queue's name.
    pub fn name(&self) -> &str {
        self.queue().name()
    }

    /// Returns the number of the queue in this program, which no other queue has.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether producers wait when there is no room.
    #[inline]
    pub fn blocks(&self) -> bool {
        self.settings.strategy == BufferStrategy::Blocking
    }

    /// Whether a handler's items may come from several threads at once.
    pub fn spreads_types(&self) -> bool {
        !self.settings.sticky
    }

    /// Whether the garbage collector is shown the user's objects (`caller_count.rs`, invariant 2).
    ///
    /// The collector asks several times and must get one answer. The collector holds the GIL, which producing,
    /// accounting and closing need, or has stopped all threads that are attached, so the state of the queue stays the
    /// same meanwhile.
    fn is_shown(&self) -> bool {
        let process = self.process();
        let is_called = process.callers.are_left() || self.drops.wait();
        !is_called || (process.queue.is_running() && process.queue.is_quiet())
    }

    /// Shows the garbage collector the user's objects, if [`Self::is_shown`] returns true.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        if !fork::is_renewed() || !self.is_shown() {
            return Ok(());
        }
        self.routing.traverse(visit)?;
        self.process().waiting_tasks.event_loops.traverse(visit)?;
        self.callables.traverse(visit)?;
        visit.call(self.balancing.as_ref().map(|balancing| &balancing.balancer))?;
        visit.call(self.drops.held())
    }

    /// Removes the handlers, through which the queue may hold itself, unless they may still be called.
    pub fn clear(&self) {
        if !self.process().callers.are_left() {
            self.callables.handlers.clear();
        }
    }
}

impl Drop for SharedQueue {
    /// Keeps the counts of losses. Nothing more: this may be a finaliser (`drop_reports.rs`, invariant 4).
    fn drop(&mut self) {
        // A forked child that drops the queue before the renewal has the parent's queue, whose locks may be taken.
        gil::held(|py| fork::is_renewed().then(|| losses::keep(py, self.queue())));
    }
}

impl Renew for SharedQueue {
    /// Starts an empty queue with the same types, whose threads start with its first item.
    fn renew_in_child(&self, _py: Python<'_>) {
        let fresh = Process::new(self.name(), self.settings.clone(), self.grouping, self.pool());
        self.callables.handlers.add_types(&fresh.queue, self.routing.keys.count());
        // A partition is never removed, even if it was added for a removed handler.
        fresh.queue.grow_to_at_least(self.queue().partition_count());
        if !self.queue().is_running() {
            fresh.queue.close();
        }
        fresh.queue.report_idle_passes(self.callables.consumer_wants_idle());
        self.process.replace_in_child(fresh);
        self.routing.forget_routes();
    }
}
