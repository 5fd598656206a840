//! What a queue's object and its drain threads share.
//!
//! The threads keep this alive, not the object: a queue that nobody holds any more is closed
//! by the object's end, delivers what it has, and then goes too.

use super::callers::Callers;
use super::config::BatchQueueConfig;
use super::drops::Drops;
use super::handler::Handler;
use super::policy::{PartitionSelector, Selection};
use super::produce::gil_yield::GilYield;
use super::scheduler::Pool;
use super::types::address_map::AddressMap;
use super::types::item::Item;
use super::types::keys::Keys;
use crate::fork::{ForkCell, Renew};
use crate::gil;
use drainq_core::batch::flush::Flush;
use drainq_core::batch::handoff::ThreadId;
use drainq_core::batch::rebalance::Rebalancer;
use drainq_core::batch::{BatchQueue, BufferStrategy, Grouping, Key, Settings};
use drainq_core::sync::Mutex;
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyWeakrefReference};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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
    /// For each key the lock that keeps the calls of its handler apart, where items of a type may come
    /// from several threads. It belongs to the type: another handler, or the same one registered
    /// again, comes under the same lock. A fork leaves it behind, in the hands of the thread that had it.
    serials: Mutex<Vec<Arc<Mutex<()>>>>,
    /// The threads that may call the user's callables.
    pub callers: Arc<Callers>,
}

/// A registered handler.
struct Registered {
    handler: Handler,
    weight: f64,
}

/// How an item's partition is found.
pub enum Select {
    /// By its type, for ever.
    Sticky,
    /// By one of our selectors.
    Ours(Py<PartitionSelector>),
    /// By the user's callable.
    Theirs(Py<PyAny>),
}

/// A queue, as its threads see it.
pub struct Shared {
    process: ForkCell<Process>,
    /// Keys and partitions of the types that were produced in this process (`produce/fast_path.rs`).
    pub lane: AddressMap,
    pool: Option<Arc<Pool>>,
    settings: Settings,
    grouping: Grouping,
    /// Types and their numbers.
    pub keys: Keys,
    /// How partitions are chosen.
    pub select: Select,
    /// For how many an item counts.
    pub len_of: Option<Py<PyAny>>,
    handlers: Mutex<Vec<Option<Registered>>>,
    consumer: Option<Handler>,
    error_handler: Option<Py<PyAny>>,
    balancer: Option<Py<PyAny>>,
    rebalance_interval: Duration,
    shutdown_timeout: Option<f64>,
    /// What is told to `on_drop`.
    pub drops: Arc<Drops>,
    /// Types for which the lack of a handler was logged.
    unrouted_logged: Mutex<Vec<bool>>,
    /// How many handlers have `on_idle`.
    wanting_idle: AtomicUsize,
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
        let select = match selector.cast::<PartitionSelector>() {
            Ok(ours) if matches!(ours.get().0, Selection::TypeHash) => Select::Sticky,
            Ok(ours) => Select::Ours(ours.clone().unbind()),
            Err(_) => Select::Theirs(selector.clone().unbind()),
        };
        let shared = Self {
            process: ForkCell::new(Process::new(name, settings.clone(), config.grouping(), pool.as_deref())),
            lane: AddressMap::new(),
            pool,
            settings,
            grouping: config.grouping(),
            keys: Keys::new(py, clone(&config.dispatch_key)),
            select,
            len_of: clone(&config.len_of),
            handlers: Mutex::default(),
            consumer,
            error_handler: clone(&config.error_handler),
            balancer: clone(&config.balancer),
            rebalance_interval: config.interval(),
            shutdown_timeout: config.default_shutdown_timeout(),
            drops: Arc::new(Drops::new(name, clone(&config.on_drop))),
            unrouted_logged: Mutex::default(),
            wanting_idle: AtomicUsize::new(0),
            guard: PyOnceLock::new(),
        };
        shared.count_consumer_with_on_idle(shared.queue());
        Ok(Arc::new(shared))
    }

    /// Closes the queue when `object` goes: by its last reference, or found by the garbage collector,
    /// which then keeps what the queue still has to call (`callers.rs`).
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

    /// The scheduler that it shares with other queues.
    pub fn pool(&self) -> Option<&Pool> {
        self.pool.as_deref()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.queue().name()
    }

    /// Whether producers wait when there is no room.
    #[inline]
    pub fn blocks(&self) -> bool {
        self.settings.strategy == BufferStrategy::Blocking
    }

    /// The callable for every batch, where there is one.
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

    /// Time between two looks of the balancer.
    pub fn rebalance_interval(&self) -> Duration {
        self.rebalance_interval
    }

    /// Seconds that a shutdown waits by default.
    pub fn shutdown_timeout(&self) -> Option<f64> {
        self.shutdown_timeout
    }

    /// What is to be waited for until the items of a type are handled.
    pub fn flush_of_type(&self, key: Key) -> Flush<Item> {
        Flush::of_type(self.queue(), key)
    }

    /// Whether a handler's items may come from several threads at once.
    pub fn spreads_types(&self) -> bool {
        !self.settings.sticky
    }

    fn count_consumer_with_on_idle(&self, queue: &BatchQueue<Item>) {
        queue.set_watched(self.consumer.as_ref().is_some_and(Handler::wants_idle));
    }

    /// The key of a dispatch key, made if it is new.
    pub fn key(&self, name: &Bound<'_, PyAny>) -> PyResult<Key> {
        match self.keys.find(name)? {
            Some(key) => Ok(key),
            None => self.keys.add(name, || self.queue().add_type(0.0)),
        }
    }

    /// Registers a handler, or puts it in the place of the one that is there.
    pub fn set_handler(&self, key: Key, handler: Handler, weight: f64) {
        let wants_idle = handler.wants_idle();
        let registered = Registered { handler, weight };
        let old = {
            let mut handlers = self.handlers.lock();
            if handlers.len() <= key as usize {
                handlers.resize_with(key as usize + 1, || None);
            }
            handlers[key as usize].replace(registered)
        };
        self.queue().set_weight(key, weight);
        self.count_wanting_idle(key, wants_idle, old);
    }

    /// Takes a handler out; false if there was none.
    pub fn remove_handler(&self, key: Key) -> bool {
        let old = self.handlers.lock().get_mut(key as usize).and_then(Option::take);
        let removed = old.is_some();
        if removed {
            self.queue().set_weight(key, 0.0);
            self.unrouted_logged.lock().iter_mut().skip(key as usize).take(1).for_each(|logged| *logged = false);
        }
        self.count_wanting_idle(key, false, old);
        removed
    }

    fn count_wanting_idle(&self, key: Key, more: bool, less: Option<Registered>) {
        if more {
            self.wanting_idle.fetch_add(1, Ordering::Relaxed);
            self.queue().watch(key, true);
        }
        if less.as_ref().is_some_and(|old| old.handler.wants_idle()) {
            self.wanting_idle.fetch_sub(1, Ordering::Relaxed);
            self.queue().watch(key, false);
        }
        drop(less); // last, for its end may run Python code
    }

    /// Whether there is a handler for this key.
    pub fn has_handler(&self, key: Key) -> bool {
        self.handlers.lock().get(key as usize).is_some_and(Option::is_some)
    }

    /// The handler for this key.
    pub fn handler(&self, py: Python<'_>, key: Key) -> Option<Handler> {
        let handlers = self.handlers.lock();
        handlers.get(key as usize)?.as_ref().map(|registered| registered.handler.clone_ref(py))
    }

    /// The handlers with `on_idle`, by key.
    pub fn handlers_with_on_idle(&self, py: Python<'_>) -> Vec<(Key, Handler)> {
        if self.wanting_idle.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let handlers = self.handlers.lock();
        let present = (0..).zip(handlers.iter()).filter_map(|(key, at)| at.as_ref().map(|at| (key, at)));
        present.filter(|(_, at)| at.handler.wants_idle()).map(|(key, at)| (key, at.handler.clone_ref(py))).collect()
    }

    /// The handlers with `on_close`.
    pub fn handlers_with_on_close(&self, py: Python<'_>) -> Vec<Handler> {
        let handlers = self.handlers.lock();
        handlers.iter().flatten().filter(|at| at.handler.wants_close()).map(|at| at.handler.clone_ref(py)).collect()
    }

    /// Whether this is the first time that the type is found to have no handler.
    pub fn first_unrouted(&self, key: Key) -> bool {
        let mut logged = self.unrouted_logged.lock();
        if logged.len() <= key as usize {
            logged.resize(key as usize + 1, false);
        }
        !std::mem::replace(&mut logged[key as usize], true)
    }

    /// Whether the garbage collector is shown the user's objects (`callers.rs`, invariant 2).
    ///
    /// It asks several times and must get one answer. It holds the GIL, which producing, accounting
    /// and closing need, so the queue stays as it is meanwhile.
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
        match &self.select {
            Select::Sticky => {}
            Select::Ours(ours) => visit.call(ours)?,
            Select::Theirs(theirs) => visit.call(theirs)?,
        }
        if let Some(handlers) = self.handlers.try_lock() {
            let registered = handlers.iter().flatten();
            registered.flat_map(|at| at.handler.held()).try_for_each(|held| visit.call(held))?;
        }
        let consumer = self.consumer.iter().flat_map(Handler::held);
        let single = [self.error_handler.as_ref(), self.balancer.as_ref(), self.len_of.as_ref(), self.drops.held()];
        consumer.chain(single.into_iter().flatten()).try_for_each(|held| visit.call(held))
    }

    /// Lets go of the handlers, through which the queue may hold itself. Nothing while they may be called.
    pub fn clear(&self, py: Python<'_>) {
        if !self.process().callers.are_left() {
            let handlers = std::mem::take(&mut *self.handlers.lock());
            handlers.into_iter().flatten().for_each(|at| at.handler.let_go(py));
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
        {
            let handlers = self.handlers.lock();
            for key in 0..self.keys.count() {
                let registered = handlers.get(key).and_then(Option::as_ref);
                let key = fresh.queue.add_type(registered.map_or(0.0, |at| at.weight));
                if registered.is_some_and(|at| at.handler.wants_idle()) {
                    fresh.queue.watch(key, true);
                }
            }
        }
        // A selector that forked chose among as many.
        fresh.queue.grow_to_at_least(self.queue().partition_count());
        if !self.queue().is_running() {
            fresh.queue.close();
        }
        self.count_consumer_with_on_idle(&fresh.queue);
        self.process.replace_in_child(fresh);
        self.drops.forget();
        self.lane.clear();
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
