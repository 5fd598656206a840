//! What a notebook shows for a queue or its counters: `_repr_html_` of each class.
//!
//! The table is made in `drainq/html_table.py`, for native and Python classes alike.

use crate::batch::queue::BatchQueue;
use crate::batch::stats::{BatchQueueStats, PartitionUsage, ThreadStats};
use crate::batch::type_stats::TypeStats;
use crate::gil;
use crate::multi::{MultiQueue, MultiQueueStats, SubQueueStats};
use crate::sources::{SetQueue, SetQueueStats};
use pyo3::prelude::*;

macro_rules! shown_as_tables {
    ($($class:ty),*) => {
        $(
            #[pymethods]
            impl $class {
                /// Shows the counters as a table, for notebooks.
                fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                    gil::call(&slf.py().import("drainq.html_table")?.getattr("of")?, [slf.as_any()])
                }
            }
        )*
    };
}

shown_as_tables! {
    BatchQueue, BatchQueueStats, PartitionUsage, ThreadStats, TypeStats,
    MultiQueue, MultiQueueStats, SubQueueStats,
    SetQueue, SetQueueStats
}
