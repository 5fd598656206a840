//! `TypeStats`: what a queue's counters said of one type, an entry of `BatchQueueStats.per_type` (`stats.rs`).

use crate::gil;
use crate::pickling;
use drainq_core::batch::type_route::TypeCounts;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// What happened to the items of one type.
// Not frozen, because `per_type` adds up the counts of names that are equal now.
#[pyclass(module = "drainq", get_all)]
pub struct TypeStats {
    /// Items accepted.
    accepted: u64,
    /// Items whose handler call returned.
    handled: u64,
    /// Items whose handler call raised, dead-lettered ones included.
    failed: u64,
    /// Items for which there was no handler.
    unrouted: u64,
}

impl TypeStats {
    /// Makes the entry of a type with these counts.
    pub fn new(counts: &TypeCounts) -> Self {
        let mut stats = Self { accepted: 0, handled: 0, failed: 0, unrouted: 0 };
        stats.add(counts);
        stats
    }

    /// Adds the counts of a type whose name is equal.
    pub fn add(&mut self, more: &TypeCounts) {
        self.accepted += more.accepted;
        self.handled += more.outcomes.handled;
        self.failed += more.outcomes.failed + more.outcomes.dead_lettered;
        self.unrouted += more.outcomes.unrouted;
    }
}

/// Returns the entry of `name`: `stats`, if there is none. One call does both, so that a name whose hash or comparison
/// changes its mind replaces no entry.
pub fn entry<'py>(
    per_type: &Bound<'py, PyDict>,
    name: &Bound<'py, PyAny>,
    stats: &Bound<'py, TypeStats>,
) -> PyResult<Bound<'py, TypeStats>> {
    Ok(gil::call_method(per_type, "setdefault", [name, stats.as_any()])?.cast_into()?)
}

#[pymethods]
impl TypeStats {
    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        pickling::refuse(slf, "only a queue makes one", "its numbers")
    }

    fn __repr__(&self) -> String {
        let Self { accepted, handled, failed, unrouted } = self;
        format!("TypeStats(accepted={accepted}, handled={handled}, failed={failed}, unrouted={unrouted})")
    }
}
