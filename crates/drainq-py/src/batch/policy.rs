//! The small value classes of a configuration: policies, strategy, selector, balancer.

use crate::{callables, errors, gil};
use drainq_core::batch::balance::{Balancer, ThroughputWeighted};
use drainq_core::batch::policy::ADAPTIVE_MULTIPLIER;
use drainq_core::batch::{self as core, config};
use pyo3::prelude::*;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Checks a count from Python: a negative one is refused, with its name.
pub fn count(name: &str, value: i64) -> PyResult<usize> {
    usize::try_from(value).map_err(|_| errors::bad_value(format!("{name} must not be negative, got {value}")))
}

fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// What ``produce`` does when the item's partition is full.
///
/// ``BLOCKING`` (the default) waits for room, ``IF_POSSIBLE`` gives up at once.
///
/// Example:
///     >>> from drainq import BufferStrategy
///     >>> BufferStrategy.BLOCKING
///     BufferStrategy.BLOCKING
///
/// Source: ``BufferStrategy`` in SkyWalking's ``library-batch-queue``.
#[pyclass(module = "drainq", frozen, eq, hash, from_py_object)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(non_camel_case_types, clippy::upper_case_acronyms)]
pub enum BufferStrategy {
    /// Wait for room.
    BLOCKING,
    /// Give up at once; the item is counted as rejected.
    IF_POSSIBLE,
}

impl From<BufferStrategy> for config::BufferStrategy {
    fn from(strategy: BufferStrategy) -> Self {
        match strategy {
            BufferStrategy::BLOCKING => Self::Blocking,
            BufferStrategy::IF_POSSIBLE => Self::IfPossible,
        }
    }
}

/// How many drain threads a queue has: a rule that becomes a number when it is made.
///
/// Made by ``fixed``, ``cpu_cores``, ``cpu_cores_with_base`` or ``io_bound``.
///
/// Example:
///     >>> from drainq import ThreadPolicy
///     >>> ThreadPolicy.fixed(4).resolve()
///     4
///
/// Source: ``ThreadPolicy`` in SkyWalking's ``library-batch-queue``; ``io_bound`` is ours.
#[pyclass(module = "drainq", frozen, from_py_object)]
#[derive(Clone, Copy)]
pub struct ThreadPolicy(pub core::ThreadPolicy);

#[pymethods]
impl ThreadPolicy {
    /// Exactly ``count`` threads (1 or more).
    #[staticmethod]
    fn fixed(count: i64) -> PyResult<Self> {
        core::ThreadPolicy::fixed(self::count("count", count)?).map(Self).map_err(errors::bad_value)
    }

    /// ``multiplier`` threads per core, rounded, at least one.
    #[staticmethod]
    fn cpu_cores(multiplier: f64) -> PyResult<Self> {
        core::ThreadPolicy::cpu_cores(multiplier).map(Self).map_err(errors::bad_value)
    }

    /// ``base`` threads plus ``multiplier`` per core, rounded, at least one.
    #[staticmethod]
    fn cpu_cores_with_base(base: i64, multiplier: f64) -> PyResult<Self> {
        core::ThreadPolicy::cpu_cores_with_base(count("base", base)?, multiplier).map(Self).map_err(errors::bad_value)
    }

    /// ``count`` threads for handlers that mostly wait for a disk, a network or a database.
    ///
    /// The number has nothing to do with the cores: threads that wait hold no GIL.
    #[staticmethod]
    fn io_bound(count: i64) -> PyResult<Self> {
        core::ThreadPolicy::io_bound(self::count("count", count)?).map(Self).map_err(errors::bad_value)
    }

    /// The number of threads on this machine, at least 1.
    fn resolve(&self) -> usize {
        self.0.resolve()
    }

    fn __repr__(&self) -> String {
        match self.0 {
            core::ThreadPolicy::Fixed(count) => format!("ThreadPolicy.fixed({count})"),
            core::ThreadPolicy::CpuCores(multiplier) => format!("ThreadPolicy.cpu_cores({multiplier:?})"),
            core::ThreadPolicy::CpuCoresWithBase(base, multiplier) => {
                format!("ThreadPolicy.cpu_cores_with_base({base}, {multiplier:?})")
            }
            core::ThreadPolicy::IoBound(count) => format!("ThreadPolicy.io_bound({count})"),
        }
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().0 == self.0)
    }

    fn __hash__(&self) -> u64 {
        hash_of(&self.__repr__())
    }
}

/// How many partitions a queue has.
///
/// Made by ``fixed``, ``thread_multiply`` or ``adaptive``.
///
/// Example:
///     >>> from drainq import PartitionPolicy
///     >>> PartitionPolicy.adaptive().resolve(8, 500)
///     350
///
/// Source: ``PartitionPolicy`` in SkyWalking's ``library-batch-queue``.
#[pyclass(module = "drainq", frozen, from_py_object)]
#[derive(Clone, Copy)]
pub struct PartitionPolicy(pub core::PartitionPolicy);

#[pymethods]
impl PartitionPolicy {
    /// Exactly ``count`` partitions (1 or more).
    #[staticmethod]
    fn fixed(count: i64) -> PyResult<Self> {
        core::PartitionPolicy::fixed(self::count("count", count)?).map(Self).map_err(errors::bad_value)
    }

    /// ``multiplier`` partitions per drain thread (1 or more).
    #[staticmethod]
    fn thread_multiply(multiplier: i64) -> PyResult<Self> {
        core::PartitionPolicy::thread_multiply(count("multiplier", multiplier)?).map(Self).map_err(errors::bad_value)
    }

    /// As many as the handlers deserve by their weights.
    ///
    /// Without handlers one per thread; up to ``threads * multiplier`` one per unit of
    /// weight; of the weight above that, half. Partitions are added while the queue runs
    /// and never taken away.
    #[staticmethod]
    #[pyo3(signature = (multiplier=ADAPTIVE_MULTIPLIER as i64))]
    fn adaptive(multiplier: i64) -> PyResult<Self> {
        core::PartitionPolicy::adaptive(count("multiplier", multiplier)?).map(Self).map_err(errors::bad_value)
    }

    /// The number of partitions for ``threads`` drain threads and the sum of the handlers' weights.
    #[pyo3(signature = (threads, weighted_handlers=0.0))]
    fn resolve(&self, threads: i64, weighted_handlers: f64) -> PyResult<usize> {
        let threads = count("threads", threads)?;
        if weighted_handlers.is_nan() || weighted_handlers < 0.0 {
            return Err(errors::bad_value(format!("weighted_handlers must not be negative, got {weighted_handlers}")));
        }
        Ok(self.0.resolve(threads, weighted_handlers))
    }

    fn __repr__(&self) -> String {
        match self.0 {
            core::PartitionPolicy::Fixed(count) => format!("PartitionPolicy.fixed({count})"),
            core::PartitionPolicy::ThreadMultiply(multiplier) => {
                format!("PartitionPolicy.thread_multiply({multiplier})")
            }
            core::PartitionPolicy::Adaptive(multiplier) => {
                format!("PartitionPolicy.adaptive(multiplier={multiplier})")
            }
        }
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().0 == self.0)
    }

    fn __hash__(&self) -> u64 {
        hash_of(&self.__repr__())
    }
}

/// The rule by which a selector picks a partition.
pub enum SelectorRule {
    /// A type keeps its partition for ever.
    TypeHash,
    /// One after the other.
    RoundRobin(AtomicUsize),
    /// By the hash of what a callable returns for the item.
    By(Py<PyAny>),
}

/// Which partition an item goes to.
///
/// Made by ``type_hash`` (the default), ``round_robin`` or ``by``. A queue takes any callable
/// ``(item, count) -> int`` in its place.
///
/// Example:
///     >>> from drainq import PartitionSelector
///     >>> selector = PartitionSelector.round_robin()
///     >>> [selector("item", 3) for _ in range(4)]
///     [0, 1, 2, 0]
///
/// Source: ``PartitionSelector`` in SkyWalking's ``library-batch-queue``.
#[pyclass(module = "drainq", frozen)]
pub struct PartitionSelector(pub SelectorRule);

#[pymethods]
impl PartitionSelector {
    /// All items of a type go to one partition, which never changes.
    #[staticmethod]
    fn type_hash() -> Self {
        Self(SelectorRule::TypeHash)
    }

    /// One partition after the other. Items of a type may be handled out of order.
    #[staticmethod]
    fn round_robin() -> Self {
        Self(SelectorRule::RoundRobin(AtomicUsize::new(0)))
    }

    /// Items for which ``key(item)`` is equal go to one partition, as long as the number of
    /// partitions stays the same.
    #[staticmethod]
    fn by(key: Bound<'_, PyAny>) -> PyResult<Self> {
        callables::check("key", &key, &["item"])?;
        Ok(Self(SelectorRule::By(key.unbind())))
    }

    /// The partition for ``item``, from 0 to ``count - 1``.
    pub fn __call__(&self, item: &Bound<'_, PyAny>, count: usize) -> PyResult<usize> {
        if count == 0 {
            return Err(errors::bad_value("count must be at least 1 partition, got 0"));
        }
        Ok(match &self.0 {
            SelectorRule::TypeHash => spread(item.get_type().as_ptr().addr() >> 4, count),
            SelectorRule::RoundRobin(next) => next.fetch_add(1, Ordering::Relaxed) % count,
            SelectorRule::By(key) => spread(gil::hash(&gil::call(key.bind(item.py()), [item])?)? as usize, count),
        })
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(match &self.0 {
            SelectorRule::TypeHash => "PartitionSelector.type_hash()".into(),
            SelectorRule::RoundRobin(_) => "PartitionSelector.round_robin()".into(),
            SelectorRule::By(key) => format!("PartitionSelector.by({})", key.bind(py).repr()?),
        })
    }

    fn __traverse__(&self, visit: pyo3::gc::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        match &self.0 {
            SelectorRule::By(key) => visit.call(key),
            _ => Ok(()),
        }
    }
}

/// Spreads hashes over the partitions; small integers hash to themselves.
fn spread(hash: usize, count: usize) -> usize {
    (hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % count
}

/// Decides which drain thread owns which partition.
///
/// A queue takes any object with ``assign(throughput, owners, threads)``, or a callable of
/// that shape, in its place: two lists by partition (items taken in since the last call;
/// number of the owning thread) and the number of threads. It returns the new owners, or
/// None to leave all as it is.
///
/// Example:
///     >>> from drainq import DrainBalancer
///     >>> DrainBalancer.throughput_weighted().assign([9, 9, 1], [0, 0, 0], 2)
///     [0, 1, 0]
///
/// Source: ``DrainBalancer`` in SkyWalking's ``library-batch-queue``.
#[pyclass(module = "drainq", frozen)]
pub struct DrainBalancer(ThroughputWeighted);

#[pymethods]
impl DrainBalancer {
    /// The partition with the most items goes to the thread with the fewest, and so on.
    ///
    /// Does nothing while the busiest thread has less than 1.15 times the load of the least
    /// busy one, or if no plan would make the busiest thread's load smaller.
    #[staticmethod]
    fn throughput_weighted() -> Self {
        Self(ThroughputWeighted)
    }

    /// The new owner of each partition, or None.
    fn assign(&self, throughput: Vec<u64>, owners: Vec<u16>, threads: usize) -> PyResult<Option<Vec<u16>>> {
        if throughput.len() != owners.len() || owners.iter().any(|owner| usize::from(*owner) >= threads) {
            return Err(errors::bad_value(format!(
                "throughput and owners must be of one length and owners below threads, got {throughput:?}, \
                 {owners:?}, {threads}"
            )));
        }
        Ok(self.0.assign(&throughput, &owners, threads))
    }

    #[allow(clippy::unused_self)]
    fn __repr__(&self) -> &'static str {
        "DrainBalancer.throughput_weighted()"
    }
}
