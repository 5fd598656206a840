//! What a queue's object and its drain threads share.
//!
//! The threads keep the `Shared` alive, not the object. When the last reference to the object goes, the queue
//! is closed; it delivers the items that it has, its threads end, and the `Shared` goes with them.

use super::callers::Callers;
use super::config::BatchQueueConfig;
use super::drops::Drops;
use super::handler::Handler;
use super::handlers::Handlers;
use super::policy::{PartitionSelector, SelectorRule};
use super::produce::gil_yield::GilYield;
use super::produce::route_cache::RouteCache;
use super::scheduler::Pool;
use super::types::item::Item;
use super::types::keys::Keys;
use crate::fork::{ForkCell, Renew};
use crate::gil;
use drainq_core::batch::flush::Flush;
use drainq_core::batch::item::ThreadId;
use drainq_core::batch::rebalance::Rebalancer;
use drainq_core::batch::{BatchQueue, BufferStrategy, Grouping, Key, Settings};
use drainq_core::sync::Mutex;
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyWeakrefReference};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The part of a queue that a forked child starts anew.
pub struct Process {
    /// The queue itself.
    pub queue: Arc<BatchQueue<Item>>,
    /// Whether the drain threads were started.
    started: AtomicBool,
    /// The `threading.Thread`s.
    pub threads: Mutex<Vec<Py<PyAny>>>,
    /// The balancer's memory.
    pub rebalancer: Mutex<Rebalancer<Item>>,
    /// The GIL, between producers and drain threads.
    pub gil_yield: GilYield,
    /// For each key the lock that keeps the calls of its handler apart, where several threads drain a
    /// type. The lock belongs to the type: another handler, or the same one registered again, comes under
    /// the same lock. A forked child has new locks, because a thread of the parent may hold an old one.
    serials: Mutex<Vec<Arc<Mutex<()>>>>,
    /// The threads that may call the user's callables.
    pub callers: Arc<Callers>,
}

/// The partition selector of a queue.
pub enum Selector {
    /// By its type: one partition for ever.
    ByType,
    /// By another rule of `PartitionSelector`.
    BuiltIn(Py<PartitionSelector>),
    /// By the user's callable.
    Callable(Py<PyAny>),
}

/// A queue, as its threads see it.
pub struct Shared {
    /// Keys and partitions of the classes that were produced in this process.
    pub routes: RouteCache,
    process: ForkCell<Process>,
    pool: Option<Arc<Pool>>,
    settings: Settings,
    grouping: Grouping,
    /// Types and their numbers.
    pub keys: Keys,
    /// How partitions are chosen.
    pub selector: Selector,
    /// The callable that returns the weight of an item.
    pub len_of: Option<Py<PyAny>>,
    /// The handlers by key.
    pub handlers: Handlers,
    consumer: Option<Handler>,
    error_handler: Option<Py<PyAny>>,
    balancer: Option<Py<PyAny>>,
    rebalance_interval: Duration,
    shutdown_timeout: Option<f64>,
    /// The items that are not handled, for `on_drop`.
    pub drops: Arc<Drops>,
    /// A weak reference on the queue's object, which closes the queue at the object's end.
    guard: PyOnceLock<Py<PyWeakrefReference>>,
}

impl Shared {
    /// A queue by this configuration. Its threads are not started.
    pub fn new(py: Python<'_>, name: &str, config: &BatchQueueConfig) -> PyResult<Arc<Self>> {
        let settings = config.settings(py)?;
        let pool = match &config.shared_scheduler {
            Some((pool, policy)) => Some(Pool::get_or_create(py, pool, policy.0)?),
            None => None,
        };
        let consumer = config.consumer.as_ref().map(|held| Handler::new("consumer", held.bind(py))).transpose()?;
        let clone = |held: &Option<Py<PyAny>>| held.as_ref().map(|held| held.clone_ref(py));
        let selector = config.partition_selector.bind(py);
        let selector = match selector.cast::<PartitionSelector>() {
            Ok(built_in) if matches!(built_in.get().0, SelectorRule::TypeHash) => Selector::ByType,
            Ok(built_in) => Selector::BuiltIn(built_in.clone().unbind()),
            Err(_) => Selector::Callable(selector.clone().unbind()),
        };
        let shared = Self {
            process: ForkCell::new(Process::new(name, settings.clone(), config.grouping(), pool.as_deref())),
            routes: RouteCache::new(),
            pool,
            settings,
            grouping: config.grouping(),
            keys: Keys::new(py, clone(&config.dispatch_key)),
            selector,
            len_of: clone(&config.len_of),
            handlers: Handlers::default(),
            consumer,
            error_handler: clone(&config.error_handler),
            balancer: clone(&config.balancer),
            rebalance_interval: config.interval(),
            shutdown_timeout: config.default_shutdown_timeout(),
            drops: Arc::new(Drops::new(name, clone(&config.on_drop))),
            guard: PyOnceLock::new(),
        };
        shared.set_consumer_wants_idle(shared.queue());
        Ok(Arc::new(shared))
    }

    /// Has the queue closed at the end of `object`: when its last reference goes, or when the garbage collector
    /// finds it in a cycle. The collector then keeps the callables that the queue still has to call (`callers.rs`).
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

    /// The queue of this process.
    #[inline]
    pub fn process(&self) -> &Process {
        self.process.get()
    }

    /// The core's queue.
    #[inline]
    pub fn queue(&self) -> &Arc<BatchQueue<Item>> {
        &self.process().queue
    }

    /// The pool whose drain threads the queue shares with others.
    pub fn pool(&self) -> Option<&Pool> {
        self.pool.as_deref()
    }

    /// The queue's name.
    pub fn name(&self) -> &str {
        self.queue().name()
    }

    /// Whether producers wait when there is no room.
    #[inline]
    pub fn blocks(&self) -> bool {
        self.settings.strategy == BufferStrategy::Blocking
    }

    /// The callable for every batch, if the queue has one.
    pub fn consumer(&self) -> Option<&Handler> {
        self.consumer.as_ref()
    }

    /// The callable for batches that failed.
    pub fn error_handler(&self) -> Option<&Py<PyAny>> {
        self.error_handler.as_ref()
    }

    /// The user's balancer.
    pub fn balancer(&self) -> Option<&Py<PyAny>> {
        self.balancer.as_ref()
    }

    /// Time between two calls of the balancer.
    pub fn rebalance_interval(&self) -> Duration {
        self.rebalance_interval
    }

    /// Seconds that a shutdown waits by default.
    pub fn shutdown_timeout(&self) -> Option<f64> {
        self.shutdown_timeout
    }

    /// A flush of the items of one type.
    pub fn flush_of_type(&self, key: Key) -> Flush<Item> {
        Flush::of_type(self.queue(), key)
    }

    /// Whether a handler's items may come from several threads at once.
    pub fn spreads_types(&self) -> bool {
        !self.settings.sticky
    }

    fn set_consumer_wants_idle(&self, queue: &BatchQueue<Item>) {
        queue.report_idle_passes(self.consumer.as_ref().is_some_and(Handler::wants_idle));
    }

    /// The key of a type, by the type's name; a new name gets a new key.
    pub fn key(&self, name: &Bound<'_, PyAny>) -> PyResult<Key> {
        match self.keys.find(name)? {
            Some(key) => Ok(key),
            None => self.keys.add(name, || self.queue().add_type(0.0)),
        }
    }

    /// Whether the garbage collector is shown the user's objects (`callers.rs`, invariant 2).
    ///
    /// The collector asks several times and must get one answer. It holds the GIL, which producing, accounting
    /// and closing need, so the state of the queue stays the same meanwhile.
    fn is_shown(&self) -> bool {
        let process = self.process();
        let is_called = process.callers.are_left() || self.drops.has_reporter();
        !is_called || (process.queue.is_running() && process.queue.is_quiet())
    }

    /// Shows the garbage collector the user's objects, if it is to see them now.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        if !self.is_shown() {
            return Ok(());
        }
        self.keys.traverse(visit)?;
        match &self.selector {
            Selector::ByType => {}
            Selector::BuiltIn(selector) => visit.call(selector)?,
            Selector::Callable(selector) => visit.call(selector)?,
        }
        self.handlers.traverse(visit)?;
        let consumer = self.consumer.iter().flat_map(Handler::held);
        let single = [self.error_handler.as_ref(), self.balancer.as_ref(), self.len_of.as_ref(), self.drops.held()];
        consumer.chain(single.into_iter().flatten()).try_for_each(|held| visit.call(held))
    }

    /// Removes the handlers, through which the queue may hold itself, unless they may still be called.
    pub fn clear(&self, py: Python<'_>) {
        if !self.process().callers.are_left() {
            self.handlers.clear(py);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        gil::held(|py| self.drops.flush(py));
    }
}

impl Renew for Shared {
    /// An empty queue with the same types, whose threads start with its first item.
    fn renew_in_child(&self, _py: Python<'_>) {
        let fresh = Process::new(self.name(), self.settings.clone(), self.grouping, self.pool());
        self.handlers.add_types(&fresh.queue, self.keys.count());
        // A selector that forked has chosen among the partitions of the parent.
        fresh.queue.grow_to_at_least(self.queue().partition_count());
        if !self.queue().is_running() {
            fresh.queue.close();
        }
        self.set_consumer_wants_idle(&fresh.queue);
        self.process.replace_in_child(fresh);
        self.drops.forget();
        self.routes.clear();
    }
}

impl Process {
    fn new(name: &str, settings: Settings, grouping: Grouping, pool: Option<&Pool>) -> Self {
        let queue = Arc::new(match pool {
            Some(pool) => BatchQueue::on_pool(name, settings, grouping, pool.scheduler().sleepers()),
            None => BatchQueue::new(name, settings, grouping),
        });
        Self {
            rebalancer: Mutex::new(Rebalancer::new(queue.clone())),
            queue,
            started: AtomicBool::new(false),
            threads: Mutex::default(),
            gil_yield: GilYield::new(),
            serials: Mutex::default(),
            callers: Arc::new(Callers::new()),
        }
    }

    /// The lock that keeps the calls of this key's handler apart.
    pub fn serial(&self, key: Key) -> Arc<Mutex<()>> {
        let mut serials = self.serials.lock();
        if serials.len() <= key as usize {
            serials.resize_with(key as usize + 1, Arc::default);
        }
        serials[key as usize].clone()
    }

    /// Gives the right to start the drain threads: true once.
    pub fn claim_start(&self) -> bool {
        !self.started.swap(true, Ordering::Relaxed)
    }

    /// Whether the drain threads were started.
    #[inline]
    pub fn is_started(&self) -> bool {
        self.started.load(Ordering::Relaxed)
    }

    /// The number of drain threads.
    pub fn worker_ids(&self) -> impl Iterator<Item = ThreadId> + use<> {
        0..self.queue.thread_count() as ThreadId
    }
}
