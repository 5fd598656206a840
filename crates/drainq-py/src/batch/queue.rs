//! `BatchQueue`: the class that Python sees.

use super::config::BatchQueueConfig;
use super::exit::{self, Live};
use super::handler::Handler;
use super::produce::slow_path::WhenFull;
use super::shared::Shared;
use super::stats::BatchQueueStats;
use crate::deadline::Deadline;
use crate::errors;
use crate::fork::{self, Renew};
use drainq_core::batch::flush::Flush;
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use std::sync::{Arc, Weak};

/// A queue that groups items by type and gives them to handlers in batches, on threads of its own.
///
/// Producers call ``produce`` from any thread. Items go to the partition of their type;
/// drain threads empty the partitions and call the type's handler with a list of items, one
/// call per type and pass. Items of one type from one producer are handled in order, and a
/// handler is never called by two threads at once.
///
/// Args:
///     name: for threads, logs and statistics.
///     config: a :class:`BatchQueueConfig`.
///
/// As a context manager the queue is shut down at the end of the block.
///
/// Example:
///     >>> from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
///     >>> lengths = []
///     >>> with BatchQueue("words", BatchQueueConfig(threads=ThreadPolicy.fixed(1))) as queue:
///     ...     queue.add_handler(str, lambda batch: lengths.extend(map(len, batch)))
///     ...     queue.produce_many(["a", "list", "of", "words"])
///     4
///     >>> lengths
///     [1, 4, 2, 5]
///
/// Source: ``BatchQueue`` in Apache SkyWalking's ``library-batch-queue``.
#[pyclass(module = "drainq", frozen, weakref)]
pub struct BatchQueue {
    shared: Arc<Shared>,
    config: Py<BatchQueueConfig>,
}

impl BatchQueue {
    /// The queue behind the object. Inlined, because a produce call takes hardly longer than a function call.
    #[inline(always)]
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The configuration that the queue was made with.
    pub fn config(&self) -> &Py<BatchQueueConfig> {
        &self.config
    }

    fn refuse_in_handler(&self, py: Python<'_>, what: &str) -> PyResult<()> {
        if self.shared.queue().is_draining_here() {
            return Err(errors::WOULD_DEADLOCK.error(
                py,
                format!(
                    "{what} of queue {:?} was called from one of its own handlers, which it would wait for; \
                     call it from another thread",
                    self.shared.name()
                ),
            ));
        }
        Ok(())
    }

    fn wait_flushed(
        &self,
        py: Python<'_>,
        mut flush: Flush<super::types::item::Item>,
        deadline: Deadline,
    ) -> PyResult<bool> {
        Ok(crate::deadline::wait(py, deadline, |slice| flush.wait(slice))?.unwrap_or(false))
    }
}

#[pymethods]
impl BatchQueue {
    #[new]
    pub fn new(py: Python<'_>, name: String, config: Py<BatchQueueConfig>) -> PyResult<Py<Self>> {
        if name.is_empty() {
            return Err(errors::bad_value("a queue's name must not be empty, got ''"));
        }
        exit::check_not_over(py, &name)?;
        exit::install_hooks(py)?;
        let shared = Shared::new(py, &name, config.get())?;
        let (wanted, threads) = (config.get().thread_policy().resolve(), shared.queue().thread_count());
        if threads < wanted && shared.pool().is_none() {
            errors::warn(
                py,
                &format!(
                    "queue {name:?}: {wanted} drain threads were asked for, but there are only {threads} \
                     partitions, so it gets {threads}; more partitions would let the others work"
                ),
            )?;
        }
        let queue = Bound::new(py, Self { shared: shared.clone(), config })?;
        shared.end_with(&queue)?;
        exit::register(Arc::downgrade(&shared) as Weak<dyn Live>);
        fork::register(Arc::downgrade(&shared) as Weak<dyn Renew>);
        shared.start_threads(py)?;
        Ok(queue.unbind())
    }

    /// Call ``handler`` with the batches of ``type``.
    ///
    /// Args:
    ///     type: the exact class of the items (a subclass is a type of its own), or a value
    ///         of the queue's ``dispatch_key``.
    ///     handler: a callable that takes a list, which is then its own; or an object with
    ///         ``consume(batch)`` and perhaps ``on_idle()``, called when a pass found nothing, and
    ///         ``on_close()``, called once when the queue is closed and everything was handed out.
    ///     weight: how much of a partition of its own the type deserves, above 0. Matters
    ///         for ``PartitionPolicy.adaptive``.
    ///
    /// A second handler for a type replaces the first from the next pass on.
    ///
    /// Raises:
    ///     TypeError: ``handler`` cannot be called with a batch or would do nothing (``async def``, a
    ///         generator function), or ``type`` is no class.
    ///     ValueError: ``weight`` is not above 0.
    ///     DrainqError: the queue is shut down.
    #[pyo3(signature = (r#type, handler, weight=1.0), text_signature = "($self, type, handler, weight=1.0)")]
    fn add_handler(
        &self,
        py: Python<'_>,
        r#type: Bound<'_, PyAny>,
        handler: Bound<'_, PyAny>,
        weight: f64,
    ) -> PyResult<()> {
        let handler = Handler::new("handler", &handler)?;
        if !(weight.is_finite() && weight > 0.0) {
            return Err(errors::bad_value(format!("weight must be a number > 0, got {weight}")));
        }
        self.shared.keys.check(&r#type)?;
        if !self.shared.queue().is_running() {
            return Err(errors::DRAINQ_ERROR
                .error(py, format!("queue {:?} is shut down; add handlers before that", self.shared.name())));
        }
        if self.shared.consumer().is_some() {
            errors::warn(
                py,
                &format!(
                    "queue {:?} has a consumer that gets every batch; the handler for {} will not be called",
                    self.shared.name(),
                    r#type.repr()?
                ),
            )?;
        }
        let key = self.shared.key(&r#type)?;
        self.shared.handlers.set(self.shared.queue(), key, handler, weight);
        Ok(())
    }

    /// Remove the handler of ``type``, after the items that are queued for it were handled.
    ///
    /// Returns:
    ///     True, or False if there was none.
    /// Raises:
    ///     WouldDeadlock: called from a handler of this queue.
    #[pyo3(text_signature = "($self, type)")]
    fn remove_handler(&self, py: Python<'_>, r#type: Bound<'_, PyAny>) -> PyResult<bool> {
        self.shared.keys.check(&r#type)?;
        let Some(key) = self.shared.keys.find(&r#type)? else { return Ok(false) };
        if !self.shared.handlers.contains(key) {
            return Ok(false);
        }
        self.refuse_in_handler(py, "remove_handler")?;
        self.wait_flushed(py, self.shared.flush_of_type(key), Deadline::never())?;
        Ok(self.shared.handlers.remove(self.shared.queue(), key))
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
    ///
    /// Source: ``produce`` in SkyWalking's ``BatchQueue.java``.
    pub fn produce(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.shared.produce(item, self.shared.when_full())
    }

    /// Queue one item, waiting for room until a deadline, whatever the queue's strategy.
    ///
    /// Args:
    ///     item: any object.
    ///     timeout: seconds to wait for room; 0 never waits; None does what ``produce`` does.
    /// Returns:
    ///     True if it was queued, False if the time ran out or the queue is shut down.
    /// Raises:
    ///     WouldDeadlock: it would wait, and was called from a handler of this queue.
    ///     ValueError: ``timeout`` is negative or not a number.
    ///
    /// Source: ``produce`` in SkyWalking's ``BatchQueue.java``; the timeout is ours.
    #[pyo3(signature = (item, timeout=None))]
    fn offer(&self, item: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<bool> {
        let when_full = match timeout {
            None => self.shared.when_full(),
            Some(_) => WhenFull::WaitUntil(Deadline::after("timeout", timeout)?),
        };
        self.shared.produce(item, when_full)
    }

    /// Queue many items, in order.
    ///
    /// Args:
    ///     items: an iterable.
    /// Returns:
    ///     How many were accepted. On a ``BLOCKING`` queue that is all of them, unless the
    ///     queue is shut down meanwhile.
    /// Raises:
    ///     What iterating raises; the items before that are queued.
    pub fn produce_many(&self, items: &Bound<'_, PyAny>) -> PyResult<u64> {
        self.shared.produce_many(items, self.shared.when_full())
    }

    /// Wait until everything accepted before this call has been through a handler call.
    ///
    /// Args:
    ///     timeout: seconds to wait; None: as long as it takes.
    /// Returns:
    ///     True if so, False if the time ran out or a shutdown gave up on items.
    /// Raises:
    ///     WouldDeadlock: called from a handler of this queue.
    #[pyo3(signature = (timeout=None))]
    fn flush(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let deadline = Deadline::after("timeout", timeout)?;
        self.refuse_in_handler(py, "flush")?;
        let flushed = self.wait_flushed(py, Flush::of_queue(self.shared.queue()), deadline)?;
        self.shared.drops.flush(py);
        Ok(flushed)
    }

    /// The counters now: a :class:`BatchQueueStats`.
    ///
    /// Takes about two nanoseconds for each queued item: ``per_type`` counts the items in the rings now, so
    /// that producers need not count.
    fn stats(&self, py: Python<'_>) -> BatchQueueStats {
        BatchQueueStats::take(py, &self.shared)
    }

    /// Take no more items, hand out what is queued, and end the drain threads.
    ///
    /// Producers that wait for room are released. A second call waits for the first.
    ///
    /// Args:
    ///     timeout: seconds to wait; None: the configuration's ``shutdown_timeout``. When
    ///         they are over, what was not handled is counted as ``abandoned`` and reported,
    ///         the batch of a handler that hangs included.
    /// Returns:
    ///     True if everything accepted was handed to a handler, or counted as failed or
    ///     unrouted; False if something was abandoned.
    /// Raises:
    ///     WouldDeadlock: called from a handler of this queue.
    #[pyo3(signature = (timeout=None))]
    pub fn shutdown(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let timeout = timeout.or(self.config.get().default_shutdown_timeout());
        let deadline = Deadline::after("timeout", timeout)?;
        self.refuse_in_handler(py, "shutdown")?;
        self.shared.end(py, deadline)
    }

    /// Ask the balancer now, without waiting for its interval.
    ///
    /// Returns:
    ///     How many partitions get another drain thread; 0 without a balancer.
    fn rebalance(&self, py: Python<'_>) -> PyResult<usize> {
        self.shared.rebalance(py)
    }

    /// For each drain thread, the numbers of the partitions that it owns.
    fn assignments(&self) -> Vec<Vec<u32>> {
        self.shared.queue().assignments()
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

    /// Partitions there are now; may grow, never shrinks.
    #[getter]
    fn partition_count(&self) -> usize {
        self.shared.queue().partition_count()
    }

    /// Drain threads.
    #[getter]
    fn thread_count(&self) -> usize {
        self.shared.queue().thread_count()
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.shutdown(py, None).map(drop)
    }

    fn __repr__(&self) -> String {
        let queue = self.shared.queue();
        let state = if queue.is_running() { "running" } else { "shut down" };
        let (partitions, threads) = (queue.partition_count(), queue.thread_count());
        format!("<BatchQueue {:?} {state}, {partitions} partitions, {threads} threads>", self.shared.name())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(errors::bad_type(format!(
            "the queue {:?} cannot be pickled: its threads and items belong to this process; send its settings, and \
             make a queue where it is used",
            self.shared.name()
        )))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.config)?;
        self.shared.traverse(&visit)
    }

    /// The last reference is in a cycle. The queue is closed, and nothing is called any more.
    fn __clear__(&self, py: Python<'_>) {
        self.shared.clear(py);
    }
}
