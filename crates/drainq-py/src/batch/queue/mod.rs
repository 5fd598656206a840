//! `BatchQueue`: the Python class. Its other methods are in the files of this folder.

mod add_handler;
mod attempt;
mod flush;
pub mod raw_method;
pub mod shutdown;
mod when_over;

use crate::arguments;
use crate::batch::config::BatchConfig;
use crate::batch::coroutines;
use crate::batch::interpreter_exit::{self, Live};
use crate::batch::shared_queue::SharedQueue;
use crate::batch::stats;
use crate::deadline::{Deadline, MayWait};
use crate::errors;
use crate::fork::{self, Renew};
use crate::pickling;
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Arc, Weak};

/// A queue that groups items by type and passes them to handlers in batches, on its own threads.
///
/// Producers call ``produce`` from any thread. Items go to the partition of their type;
/// drain threads empty the partitions and call the type's handler with a list of items, one
/// call per type and pass. Items of one type from one producer are handled in order, and a
/// handler is never called by two threads at once. Only a ``consumer`` with ``threads=2`` or more is: see
/// ``partition_selector`` of :class:`BatchQueueConfig`.
///
/// Args:
///     name: for threads, logs and statistics.
///     config: a :class:`BatchQueueConfig`, for settings that several queues share. None: the defaults, and one thread.
///     consumer: a callable for every batch, whatever the types.
///     handlers: a dict of types and their handlers, as for ``add_handler``, such as ``{Hit: store}``.
///     settings: any setting of :class:`BatchQueueConfig`, such as ``threads=2``. They win over ``config``.
///
/// As a context manager the queue is shut down at the end of the block; a queue that was shut down before raises
/// ``ShutDown``.
///
/// Example:
///     >>> from drainq import BatchQueue
///     >>> lengths = []
///     >>> with BatchQueue("words", handlers={str: lambda batch: lengths.extend(map(len, batch))}) as queue:
///     ...     queue.produce_many(["a", "list", "of", "words"])
///     4
///     >>> lengths
///     [1, 4, 2, 5]
///
/// Source: ``BatchQueue`` in Apache SkyWalking's ``library-batch-queue``.
#[pyclass(module = "drainq", frozen, weakref, generic)]
pub struct BatchQueue {
    shared: Arc<SharedQueue>,
}

impl BatchQueue {
    /// Returns the queue behind the object. Inlined, because a produce call takes hardly longer than a function call.
    #[inline(always)]
    pub fn shared(&self) -> &Arc<SharedQueue> {
        &self.shared
    }

    /// Raises WouldDeadlock if this thread is in a handler call of the queue, or runs the event loop of its handlers.
    pub(super) fn refuse_in_handler(&self, py: Python<'_>, what: &str) -> PyResult<()> {
        self.refuse_on_drain_thread(py, what)?;
        let event_loop = self.shared.callables.event_loop.as_ref();
        if !event_loop.map_or(Ok(false), |event_loop| coroutines::is_here(event_loop.bind(py)))? {
            return Ok(());
        }
        let why = format!(
            "in the event loop that runs its handlers, which it would keep from running; await {what}_async, or call \
             it from another thread"
        );
        Err(self.would_deadlock(py, what, &why))
    }

    /// Raises WouldDeadlock if this thread is in a handler call of the queue.
    pub(super) fn refuse_on_drain_thread(&self, py: Python<'_>, what: &str) -> PyResult<()> {
        if !self.shared.queue().is_draining_here() {
            return Ok(());
        }
        let why = "from one of its own handlers, which it would wait for; call it from another thread";
        Err(self.would_deadlock(py, what, why))
    }

    fn would_deadlock(&self, py: Python<'_>, what: &str, why: &str) -> PyErr {
        errors::WOULD_DEADLOCK.error(py, format!("{what} of queue {:?} was called {why}", self.shared.name()))
    }
}

#[pymethods]
impl BatchQueue {
    // `consumer` is read as one of the settings, so that `consumer=None` wins over the configuration, too.
    #[new]
    #[pyo3(
        signature = (name, config=None, *, handlers=None, **settings),
        text_signature = "(name, config=None, *, consumer=None, handlers=None, **settings)"
    )]
    fn new<'py>(
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::name)] name: String,
        config: Option<&Bound<'py, PyAny>>,
        handlers: Option<&Bound<'py, PyAny>>,
        settings: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Py<Self>> {
        arguments::check_name("name", &name)?;
        interpreter_exit::check_not_over(py, &name)?;
        let config = BatchConfig::of(py, config, settings)?;
        interpreter_exit::install_hooks(py)?;
        let (wanted, shared) = (config.threads, SharedQueue::new(py, &name, config)?);
        let threads = shared.queue().thread_count();
        if threads < wanted && shared.pool().is_none() {
            errors::warn(
                py,
                &format!(
                    "queue {name:?}: {wanted} drain threads were asked for, but there are only {threads} \
                     partitions, so it gets {threads}; more partitions would let the others work"
                ),
            )?;
        }
        let queue = Bound::new(py, Self { shared: shared.clone() })?;
        queue.get().add_handlers(handlers)?;
        shared.end_with(&queue)?;
        interpreter_exit::register(Arc::downgrade(&shared) as Weak<dyn Live>);
        fork::register(Arc::downgrade(&shared) as Weak<dyn Renew>);
        shared.observe();
        shared.start_threads(py)?;
        shared.set_made();
        Ok(queue.unbind())
    }

    /// Queue one item.
    ///
    /// On a ``BLOCKING`` queue this waits for room, without the GIL; Ctrl-C ends the wait. On
    /// an ``IF_POSSIBLE`` queue it never waits.
    ///
    /// Args:
    ///     item: any object. Kept by reference until its batch has been handled.
    /// Returns:
    ///     True if it was queued, False if there was no room or the queue is shut down.
    /// Raises:
    ///     WouldDeadlock: called from a handler of this queue while the partition is full
    ///         and the queue is ``BLOCKING``.
    ///     MemoryError: there is no memory for the item, which is not counted as offered.
    ///
    /// Example:
    ///     >>> from drainq import BatchQueue
    ///     >>> with BatchQueue("hits", consumer=print) as queue:
    ///     ...     accepted = queue.produce("/index")
    ///     ['/index']
    ///     >>> accepted, queue.produce("too late")
    ///     (True, False)
    ///
    /// Source: ``produce`` in SkyWalking's ``BatchQueue.java``.
    pub fn produce(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.shared().produce(item, self.shared().may_wait())
    }

    /// Queue one item, waiting for room until a deadline, whatever the queue's strategy.
    ///
    /// Args:
    ///     item: any object.
    ///     timeout: seconds to wait for room; 0 never waits; None does the same as ``produce``.
    /// Returns:
    ///     True if it was queued, False if the time ran out or the queue is shut down.
    /// Raises:
    ///     WouldDeadlock: it would wait, and was called from a handler of this queue.
    ///     MemoryError: as ``produce``.
    ///     ValueError: ``timeout`` is negative or not a number.
    ///
    /// Example:
    ///     >>> import threading
    ///     >>> from drainq import BatchQueue
    ///     >>> taken, go_on = threading.Event(), threading.Event()
    ///     >>> def store(batch):
    ///     ...     taken.set()
    ///     ...     go_on.wait()
    ///     >>> with BatchQueue("slow", consumer=store, buffer_size=1) as queue:
    ///     ...     accepted = [queue.offer("a"), taken.wait(10), queue.offer("b"), queue.offer("c", timeout=0.01)]
    ///     ...     go_on.set()
    ///     >>> accepted, queue.stats().rejected["full"]
    ///     ([True, True, True, False], 1)
    ///
    /// Source: ``produce`` in SkyWalking's ``BatchQueue.java``; the timeout is drainq's.
    #[pyo3(signature = (item, timeout=None))]
    fn offer(
        &self,
        item: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<bool> {
        let may_wait = match timeout {
            None => self.shared().may_wait(),
            Some(_) => MayWait::Until(Deadline::after("timeout", timeout)?),
        };
        self.shared().produce(item, may_wait)
    }

    /// Queue many items, in order.
    ///
    /// Args:
    ///     items: an iterable, but no str or bytes: to queue characters, give a list of them.
    /// Returns:
    ///     How many were accepted. On a ``BLOCKING`` queue that is all of them, unless the
    ///     queue is shut down meanwhile.
    /// Raises:
    ///     TypeError: ``items`` is no iterable, or a str or bytes.
    ///     MemoryError: there is no memory for the next item; the items before that are queued.
    ///     Exception: an error of the iteration; the items before it are queued.
    ///
    /// Example:
    ///     >>> from drainq import BatchQueue
    ///     >>> sums = []
    ///     >>> with BatchQueue("numbers", consumer=lambda batch: sums.append(sum(batch))) as queue:
    ///     ...     queue.produce_many(range(1000))
    ///     1000
    ///     >>> sum(sums)
    ///     499500
    pub fn produce_many(&self, items: &Bound<'_, PyAny>) -> PyResult<u64> {
        self.shared().produce_many(items, self.shared().may_wait())
    }

    /// Return the counters: a :class:`BatchQueueStats`.
    ///
    /// Takes about two nanoseconds for each queued item: ``per_type`` counts the items in the rings, so
    /// that producers need not count.
    ///
    /// Example:
    ///     >>> from drainq import BatchQueue
    ///     >>> with BatchQueue("hits", consumer=len) as queue:
    ///     ...     _ = queue.produce_many("abc".split() + ["d"]), queue.flush()
    ///     >>> stats = queue.stats()
    ///     >>> stats.accepted, stats.handled, stats.queued
    ///     (2, 2, 0)
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        stats::take(py, &self.shared)
    }

    /// Ask the balancer now, without waiting for its interval.
    ///
    /// Returns:
    ///     How many partitions change their drain thread; 0 without a balancer.
    fn rebalance(&self, py: Python<'_>) -> PyResult<usize> {
        self.shared().rebalance(py)
    }

    /// Return for each drain thread the numbers of its partitions.
    fn assignments(&self) -> Vec<Vec<u32>> {
        self.shared().queue().assignments()
    }

    /// The queue's name.
    #[getter]
    fn name(&self) -> &str {
        self.shared.name()
    }

    /// Whether items are still accepted.
    #[getter]
    fn running(&self) -> bool {
        self.shared.queue().is_running()
    }

    /// The number of partitions, which may grow and never shrinks.
    #[getter]
    fn partition_count(&self) -> usize {
        self.shared.queue().partition_count()
    }

    /// The number of drain threads.
    #[getter]
    fn thread_count(&self) -> usize {
        self.shared.queue().thread_count()
    }

    fn __repr__(&self) -> String {
        let queue = self.shared.queue();
        let state = if queue.is_running() { "running" } else { "shut down" };
        let (partitions, threads) = (queue.partition_count(), queue.thread_count());
        format!("<BatchQueue {:?} {state}, {partitions} partitions, {threads} threads>", self.shared.name())
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        pickling::refuse(
            slf,
            "its threads and items belong to this process",
            "its name and its BatchQueueConfig, and make a queue where it is used",
        )
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.shared.traverse(&visit)
    }

    /// The last reference is in a cycle. The queue is closed, and nothing is called any more.
    fn __clear__(&self) {
        self.shared.clear();
    }
}
