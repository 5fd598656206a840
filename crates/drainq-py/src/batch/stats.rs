//! `BatchQueueStats`: what a queue's counters said at one moment.

use super::shared_queue::SharedQueue;
use super::type_stats::{self, TypeStats};
use crate::arguments;
use crate::errors::{self, shown};
use crate::pickling;
use drainq_core::batch::stats::Snapshot;
use drainq_core::batch::{Outcome, Rejection};
use pyo3::PyTraverseError;
use pyo3::exceptions::PyException;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// How full one partition is.
#[pyclass(module = "drainq", frozen, get_all)]
#[derive(Clone)]
pub struct PartitionUsage {
    /// The partition's number.
    partition_index: usize,
    /// Items in it.
    used: usize,
    /// The same as a share of its capacity, 0 to 100.
    used_percentage: f64,
}

#[pymethods]
impl PartitionUsage {
    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        pickling::refuse(slf, "only a queue makes one", "its numbers")
    }

    fn __repr__(&self) -> String {
        let Self { partition_index, used, used_percentage } = self;
        format!("PartitionUsage(partition_index={partition_index}, used={used}, used_percentage={used_percentage:.1})")
    }
}

/// What one drain thread did.
#[pyclass(module = "drainq", frozen, get_all)]
pub struct ThreadStats {
    /// The thread's name.
    name: String,
    /// Items whose handler call returned.
    handled: u64,
    /// Passes that found something.
    cycles: u64,
    /// The partitions that it owns.
    partitions: Vec<usize>,
    /// Seconds spent in passes, handler calls included.
    busy_seconds: f64,
}

#[pymethods]
impl ThreadStats {
    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        pickling::refuse(slf, "only a queue makes one", "its numbers")
    }

    fn __repr__(&self) -> String {
        let Self { name, handled, cycles, partitions, busy_seconds } = self;
        format!(
            "ThreadStats(name={name:?}, handled={handled}, cycles={cycles}, partitions={partitions:?}, \
             busy_seconds={busy_seconds:.6})"
        )
    }
}

/// The counters of a queue at one moment; counts are items.
///
/// In every snapshot ``offered == accepted + sum(rejected.values())`` and ``accepted ==
/// handled + failed + unrouted + dead_lettered + abandoned + queued``. To send them to another process, send
/// ``as_dict()``: a snapshot does not pickle.
///
/// Source: ``BatchQueueStats`` in SkyWalking's ``library-batch-queue``; the accounting is ours.
#[pyclass(module = "drainq", frozen)]
pub struct BatchQueueStats {
    snapshot: Snapshot,
    names: Vec<Py<PyAny>>,
    queue: String,
    gil_yields: u64,
    gil_waits: Vec<(f64, u64)>,
}

impl BatchQueueStats {
    /// Returns the counters of `shared` now.
    pub fn take(py: Python<'_>, shared: &SharedQueue) -> Self {
        // First the counters: every type in them has a name by then.
        let snapshot = shared.queue().snapshot();
        let gil_yield = &shared.process().gil_yield;
        Self {
            snapshot,
            names: shared.routing.keys.names(py),
            queue: shared.name().to_owned(),
            gil_yields: gil_yield.yields(),
            gil_waits: gil_yield.waits(),
        }
    }

    /// Returns what became of the accepted items: the terms of the second identity, by name.
    fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.snapshot.outcomes();
        let others = [("abandoned", self.snapshot.abandoned), ("queued", self.snapshot.queued)];
        Outcome::ALL.into_iter().map(move |outcome| (outcome.name(), counts.of(outcome))).chain(others)
    }

    fn percentage(&self, used: usize, capacity: usize) -> f64 {
        100.0 * used as f64 / capacity as f64
    }
}

macro_rules! getters {
    ($(#[doc = $help:literal] $outcome:ident $name:ident,)*) => {
        /// A getter for each outcome of the core's table.
        #[pymethods]
        impl BatchQueueStats {
            $(
                #[doc = $help]
                #[getter]
                fn $name(&self) -> u64 {
                    self.snapshot.outcomes().$name
                }
            )*
        }
    };
}

drainq_core::for_each_outcome!(getters);

#[pymethods]
impl BatchQueueStats {
    /// Partitions.
    #[getter]
    fn partition_count(&self) -> usize {
        self.snapshot.used.len()
    }

    /// Items that fit into one partition.
    #[getter]
    fn buffer_size(&self) -> usize {
        self.snapshot.buffer_size
    }

    /// Items in all partitions; those in a handler call are not among them.
    fn total_used(&self) -> usize {
        self.snapshot.used.iter().sum()
    }

    /// Items that fit into all partitions together: their ``buffer_size`` each, or the ``capacity`` of the queue if that
    /// is less.
    fn total_capacity(&self) -> usize {
        self.snapshot.total_capacity()
    }

    /// How full the queue is, 0.0 to 100.0.
    fn total_used_percentage(&self) -> f64 {
        self.percentage(self.total_used(), self.total_capacity())
    }

    /// Items in one partition.
    fn partition_used(&self, #[pyo3(from_py_with = arguments::index)] index: i64) -> PyResult<usize> {
        usize::try_from(index).ok().and_then(|index| self.snapshot.used.get(index).copied()).ok_or_else(|| {
            errors::bad_value(format!(
                "index must be a partition's, 0 to {}, got {index}",
                self.snapshot.used.len() - 1
            ))
        })
    }

    /// How full one partition is, 0.0 to 100.0.
    fn partition_used_percentage(&self, #[pyo3(from_py_with = arguments::index)] index: i64) -> PyResult<f64> {
        Ok(self.percentage(self.partition_used(index)?, self.snapshot.buffer_size))
    }

    /// The ``n`` fullest partitions, the fullest first: a list of :class:`PartitionUsage`.
    fn top_n(&self, #[pyo3(from_py_with = arguments::n)] n: i64) -> PyResult<Vec<PartitionUsage>> {
        let n = usize::try_from(n)
            .map_err(|_| errors::bad_value(format!("n must be a number of partitions >= 0, got {n}")))?;
        let mut usages: Vec<_> = (0..)
            .zip(&self.snapshot.used)
            .map(|(partition_index, used)| PartitionUsage {
                partition_index,
                used: *used,
                used_percentage: self.percentage(*used, self.snapshot.buffer_size),
            })
            .collect();
        usages.sort_by_key(|usage| std::cmp::Reverse(usage.used));
        usages.truncate(n);
        Ok(usages)
    }

    /// Items given to ``produce``, ``offer`` or ``produce_many``.
    #[getter]
    fn offered(&self) -> u64 {
        self.snapshot.accepted + self.snapshot.rejected.iter().sum::<u64>()
    }

    /// Items accepted.
    #[getter]
    fn accepted(&self) -> u64 {
        self.snapshot.accepted
    }

    /// Items rejected, by reason: ``full``, ``closed``, ``would_deadlock``.
    #[getter]
    fn rejected<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rejected = PyDict::new(py);
        for (reason, count) in Rejection::ALL.iter().zip(self.snapshot.rejected) {
            rejected.set_item(reason.name(), count)?;
        }
        Ok(rejected)
    }

    /// Items that a shutdown gave up on when its time was over.
    #[getter]
    fn abandoned(&self) -> u64 {
        self.snapshot.abandoned
    }

    /// Items accepted whose handler call has not returned yet.
    #[getter]
    fn queued(&self) -> u64 {
        self.snapshot.queued
    }

    /// A :class:`TypeStats` by type, or by dispatch key. Every item is counted in one of them.
    ///
    /// Classes that their metaclass calls equal share an entry, though each has a handler of its
    /// own. A class or key whose hash or comparison raises is named by a text instead.
    #[getter]
    fn per_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let per_type = PyDict::new(py);
        for (number, (name, counts)) in self.names.iter().zip(&self.snapshot.types).enumerate() {
            let stats = Bound::new(py, TypeStats::new(counts))?;
            let name = name.bind(py);
            let entry = match type_stats::entry(&per_type, name, &stats) {
                Err(error) if error.is_instance_of::<PyException>(py) => {
                    let raised = error.get_type(py).name()?;
                    let text = format!("{} (type {number}, whose hash or comparison raised {raised})", shown(name)?);
                    type_stats::entry(&per_type, text.into_pyobject(py)?.as_any(), &stats)?
                }
                entry => entry?,
            };
            if !entry.is(&stats) {
                entry.borrow_mut().add(counts);
            }
        }
        Ok(per_type)
    }

    /// A :class:`ThreadStats` for each drain thread.
    #[getter]
    fn threads(&self) -> Vec<ThreadStats> {
        let stats = |(id, worker): (usize, &drainq_core::batch::drain_worker::WorkerCounts)| {
            let owned = (0..).zip(&self.snapshot.owners).filter(|(_, owner)| usize::from(**owner) == id);
            ThreadStats {
                name: format!("drainq-{}-{id}", self.queue),
                handled: worker.outcomes.handled,
                cycles: worker.cycles,
                partitions: owned.map(|(partition, _)| partition).collect(),
                busy_seconds: worker.busy_nanos as f64 / 1e9,
            }
        };
        self.snapshot.workers.iter().enumerate().map(stats).collect()
    }

    /// How many of the balancer's plans were carried out.
    #[getter]
    fn rebalances(&self) -> u64 {
        self.snapshot.rebalances
    }

    /// How often a producer whose partition filled up gave up the GIL for a drain thread.
    #[getter]
    fn gil_yields(&self) -> u64 {
        self.gil_yields
    }

    /// The old name of ``gil_yields``; deprecated.
    #[getter]
    fn handoffs(&self, py: Python<'_>) -> PyResult<u64> {
        errors::warn_deprecated(py, "BatchQueueStats.handoffs is now called gil_yields")?;
        Ok(self.gil_yields)
    }

    /// Whether every item is accounted for: ``offered == accepted + sum(rejected.values())`` and ``accepted ==
    /// handled + failed + unrouted + dead_lettered + abandoned + queued``.
    ///
    /// The counters are kept in different places (partitions, drain threads, the queue), so this compares what was
    /// counted, not what was derived. False means a fault in drainq.
    #[getter]
    fn balanced(&self) -> bool {
        let rejected: u64 = self.snapshot.rejected.iter().sum();
        let what_became: u64 = self.outcomes().map(|(_, count)| count).sum();
        self.offered() == self.accepted() + rejected && self.accepted() == what_became
    }

    /// The item counters as a dictionary, in the order of the two identities: for logs, JSON and metrics.
    ///
    /// Returns:
    ///     ``offered, accepted, rejected, handled, failed, unrouted, dead_lettered, abandoned, queued``: items;
    ///     ``rejected`` is a dictionary by reason.
    ///
    /// Example:
    ///     >>> from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
    ///     >>> config = BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=lambda batch: None)
    ///     >>> with BatchQueue("as-dict", config) as queue:
    ///     ...     _ = queue.produce_many([1, 2, 3]), queue.flush()
    ///     ...     counts = queue.stats().as_dict()
    ///     >>> counts["accepted"], counts["handled"], counts["rejected"]["full"]
    ///     (3, 3, 0)
    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = PyDict::new(py);
        counts.set_item("offered", self.offered())?;
        counts.set_item("accepted", self.accepted())?;
        counts.set_item("rejected", self.rejected(py)?)?;
        self.outcomes().try_for_each(|(name, count)| counts.set_item(name, count))?;
        Ok(counts)
    }

    /// How long drain threads waited for the GIL: a list of ``(seconds, count)``, each the
    /// number of waits shorter than that and not shorter than the one before.
    #[getter]
    fn gil_waits(&self) -> Vec<(f64, u64)> {
        self.gil_waits.clone()
    }

    /// Bytes that the partitions' buffers hold now.
    #[getter]
    fn allocated_bytes(&self) -> usize {
        self.snapshot.allocated_bytes
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        pickling::refuse(slf, "only a queue makes one", "stats.as_dict()")
    }

    /// Shows the garbage collector the names of the types: a class or a dispatch key may hold the snapshot.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.names.iter().try_for_each(|name| visit.call(name))
    }

    fn __repr__(&self) -> String {
        let rejected: u64 = self.snapshot.rejected.iter().sum();
        let outcomes: Vec<_> = self.outcomes().map(|(name, count)| format!("{name}={count}")).collect();
        format!(
            "BatchQueueStats(offered={}, accepted={}, rejected={rejected}, {})",
            self.offered(),
            self.accepted(),
            outcomes.join(", ")
        )
    }
}
