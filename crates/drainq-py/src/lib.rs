//! `drainq._native`: registers the names, no more.

mod batch;
mod deadline;
mod errors;
mod fork;
mod gil;
mod multi;
mod sources;

use pyo3::prelude::*;

#[pymodule(gil_used = true)]
mod _native {
    use super::*;

    #[pymodule_export]
    use crate::batch::{
        config::BatchQueueConfig,
        manager::BatchQueueManager,
        policy::{BufferStrategy, DrainBalancer, PartitionPolicy, PartitionSelector, ThreadPolicy},
        queue::BatchQueue,
        stats::{BatchQueueStats, PartitionUsage, ThreadStats, TypeStats},
    };

    #[pymodule_export]
    use crate::multi::{MultiQueue, MultiQueueStats, QueueAwaitable, SubQueue, SubQueueStats};
    #[pymodule_export]
    use crate::sources::{SetQueue, SetQueueStats};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::fork::install_hook(module.py())?;
        crate::batch::hot::install(module.py())?;
        module.add("__version__", drainq_core::VERSION)
    }
}
