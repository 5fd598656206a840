//! `PartitionSelector`: chooses the partition of an item.

use crate::pickling::{self, Recipe};
use crate::{errors, gil, python_calls};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The rule by which a selector picks a partition.
pub enum SelectorRule {
    /// A type keeps its partition for ever.
    TypeHash,
    /// One after the other, beginning with partition 0; the number of choices so far, which all producers share.
    RoundRobin(AtomicUsize),
    /// By the hash of a callable's result for the item.
    By(Py<PyAny>),
}

/// Chooses the partition of an item.
///
/// Made by ``type_hash`` (the default), ``round_robin`` or ``by``. A queue takes any callable
/// ``(item, count) -> int`` in its place. Selectors can be pickled, if the pickler can send the key of ``by``, and
/// copied. A copy of ``round_robin`` begins with partition 0.
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
    /// Keep all items of a type in one partition for ever.
    #[staticmethod]
    fn type_hash() -> Self {
        Self(SelectorRule::TypeHash)
    }

    /// Take one partition after the other. Items of a type may be handled out of order.
    #[staticmethod]
    fn round_robin() -> Self {
        Self(SelectorRule::RoundRobin(AtomicUsize::default()))
    }

    /// Keep items with equal ``key(item)`` together in one partition, as long as the number of partitions stays the
    /// same.
    #[staticmethod]
    fn by(key: Bound<'_, PyAny>) -> PyResult<Self> {
        python_calls::check_callable("key", &key, "item")?;
        Ok(Self(SelectorRule::By(key.unbind())))
    }

    /// Return the partition for ``item``, from 0 to ``count - 1``.
    pub fn __call__(&self, item: &Bound<'_, PyAny>, count: usize) -> PyResult<usize> {
        if count == 0 {
            return Err(errors::bad_value("count must be at least 1 partition, got 0"));
        }
        Ok(match &self.0 {
            SelectorRule::TypeHash => spread(item.get_type().as_ptr().addr() >> 4, count),
            SelectorRule::RoundRobin(choices) => choices.fetch_add(1, Ordering::Relaxed) % count,
            SelectorRule::By(key) => spread(gil::call(key.bind(item.py()), [item])?.hash()? as usize, count),
        })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Recipe<'py>> {
        match &slf.get().0 {
            SelectorRule::TypeHash => pickling::made_by(slf, "type_hash", ()),
            SelectorRule::RoundRobin(_) => pickling::made_by(slf, "round_robin", ()),
            SelectorRule::By(key) => pickling::made_by(slf, "by", (key,)),
        }
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
