//! `drainq._native`: registers the names, no more.

mod deadline;
mod errors;
mod gil;
mod multi;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    use super::*;

    #[pymodule_export]
    use crate::multi::{MultiQueue, MultiQueueStats, QueueAwaitable, SubQueue, SubQueueStats};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", drainq_core::VERSION)
    }
}
