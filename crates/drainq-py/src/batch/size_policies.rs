//! `ThreadPolicy` and `PartitionPolicy`: rules that become numbers when a queue is made.

use crate::arguments;
use crate::errors;
use crate::pickling::{self, Recipe};
use drainq_core::batch as core;
use drainq_core::batch::size_policies::ADAPTIVE_MULTIPLIER;
use pyo3::prelude::*;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Checks a count from Python: a negative one is refused, with its name.
pub fn count(name: &str, value: i64) -> PyResult<usize> {
    usize::try_from(value).map_err(|_| errors::bad_value(format!("{name} must not be negative, got {value}")))
}

fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// How many drain threads a queue has: a rule that becomes a number when it is made.
///
/// Made by ``fixed``, ``cpu_cores`` or ``cpu_cores_with_base``. The rule pickles and copies, not the number:
/// where it arrives, ``cpu_cores`` counts the cores that are there.
///
/// Example:
///     >>> from drainq import ThreadPolicy
///     >>> ThreadPolicy.fixed(4).resolve()
///     4
///
/// Source: ``ThreadPolicy`` in SkyWalking's ``library-batch-queue``.
#[pyclass(module = "drainq", frozen, from_py_object)]
#[derive(Clone, Copy)]
pub struct ThreadPolicy(pub core::ThreadPolicy);

#[pymethods]
impl ThreadPolicy {
    /// Exactly ``count`` threads (1 or more).
    #[staticmethod]
    fn fixed(#[pyo3(from_py_with = arguments::count)] count: i64) -> PyResult<Self> {
        core::ThreadPolicy::fixed(self::count("count", count)?).map(Self).map_err(errors::bad_value)
    }

    /// ``multiplier`` threads per core, rounded, at least one.
    #[staticmethod]
    fn cpu_cores(#[pyo3(from_py_with = arguments::multiplier)] multiplier: f64) -> PyResult<Self> {
        core::ThreadPolicy::cpu_cores(multiplier).map(Self).map_err(errors::bad_value)
    }

    /// ``base`` threads plus ``multiplier`` per core, rounded, at least one.
    #[staticmethod]
    fn cpu_cores_with_base(
        #[pyo3(from_py_with = arguments::base)] base: i64,
        #[pyo3(from_py_with = arguments::multiplier)] multiplier: f64,
    ) -> PyResult<Self> {
        core::ThreadPolicy::cpu_cores_with_base(count("base", base)?, multiplier).map(Self).map_err(errors::bad_value)
    }

    /// The number of threads on this machine, at least 1.
    fn resolve(&self) -> usize {
        self.0.resolve()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Recipe<'py>> {
        match slf.get().0 {
            core::ThreadPolicy::Fixed(count) => pickling::made_by(slf, "fixed", (count,)),
            core::ThreadPolicy::CpuCores(multiplier) => pickling::made_by(slf, "cpu_cores", (multiplier,)),
            core::ThreadPolicy::CpuCoresWithBase(base, multiplier) => {
                pickling::made_by(slf, "cpu_cores_with_base", (base, multiplier))
            }
        }
    }

    fn __repr__(&self) -> String {
        match self.0 {
            core::ThreadPolicy::Fixed(count) => format!("ThreadPolicy.fixed({count})"),
            core::ThreadPolicy::CpuCores(multiplier) => format!("ThreadPolicy.cpu_cores({multiplier:?})"),
            core::ThreadPolicy::CpuCoresWithBase(base, multiplier) => {
                format!("ThreadPolicy.cpu_cores_with_base({base}, {multiplier:?})")
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

/// How many partitions a queue has.
///
/// Made by ``fixed``, ``thread_multiply`` or ``adaptive``; pickles and copies.
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
    fn fixed(#[pyo3(from_py_with = arguments::count)] count: i64) -> PyResult<Self> {
        core::PartitionPolicy::fixed(self::count("count", count)?).map(Self).map_err(errors::bad_value)
    }

    /// ``multiplier`` partitions per drain thread (1 or more).
    #[staticmethod]
    fn thread_multiply(#[pyo3(from_py_with = arguments::partitions_per_thread)] multiplier: i64) -> PyResult<Self> {
        core::PartitionPolicy::thread_multiply(count("multiplier", multiplier)?).map(Self).map_err(errors::bad_value)
    }

    /// As many as the handlers deserve by their weights.
    ///
    /// Without handlers one per thread; up to ``threads * multiplier`` one per unit of
    /// weight; of the weight above that, half; at most 1,048,576. Partitions are added while the
    /// queue runs and never taken away.
    #[staticmethod]
    #[pyo3(signature = (multiplier=ADAPTIVE_MULTIPLIER as i64))]
    fn adaptive(#[pyo3(from_py_with = arguments::partitions_per_thread)] multiplier: i64) -> PyResult<Self> {
        core::PartitionPolicy::adaptive(count("multiplier", multiplier)?).map(Self).map_err(errors::bad_value)
    }

    /// The number of partitions for ``threads`` drain threads and the sum of the handlers' weights.
    #[pyo3(signature = (threads, weighted_handlers=0.0))]
    fn resolve(
        &self,
        #[pyo3(from_py_with = arguments::thread_count)] threads: i64,
        #[pyo3(from_py_with = arguments::weighted_handlers)] weighted_handlers: f64,
    ) -> PyResult<usize> {
        let threads = count("threads", threads)?;
        if weighted_handlers.is_nan() || weighted_handlers < 0.0 {
            return Err(errors::bad_value(format!("weighted_handlers must not be negative, got {weighted_handlers}")));
        }
        Ok(self.0.resolve(threads, weighted_handlers))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Recipe<'py>> {
        match slf.get().0 {
            core::PartitionPolicy::Fixed(count) => pickling::made_by(slf, "fixed", (count,)),
            core::PartitionPolicy::ThreadMultiply(multiplier) => {
                pickling::made_by(slf, "thread_multiply", (multiplier,))
            }
            core::PartitionPolicy::Adaptive(multiplier) => pickling::made_by(slf, "adaptive", (multiplier,)),
        }
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
