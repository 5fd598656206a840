//! `BufferStrategy`: what `produce` does when a partition is full.

use crate::pickling::{self, Recipe};
use drainq_core::batch::config;
use pyo3::prelude::*;

/// What ``produce`` does when the item's partition is full.
///
/// ``BLOCKING`` (the default) waits for room, ``IF_POSSIBLE`` gives up at once. Both pickle and copy.
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

#[pymethods]
impl BufferStrategy {
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Recipe<'py>> {
        pickling::member(slf, &format!("{:?}", slf.get()))
    }
}

impl From<BufferStrategy> for config::BufferStrategy {
    fn from(strategy: BufferStrategy) -> Self {
        match strategy {
            BufferStrategy::BLOCKING => Self::Blocking,
            BufferStrategy::IF_POSSIBLE => Self::IfPossible,
        }
    }
}
