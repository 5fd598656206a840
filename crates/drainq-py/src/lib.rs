//! `drainq._native`: registers the names, no more.

mod deadline;
mod errors;
mod gil;
mod sources;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    use super::*;

    #[pymodule_export]
    use crate::sources::{SetQueue, SetQueueStats};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", drainq_core::VERSION)
    }
}
