//! `drainq._native`: registers the names, no more.
//!
//! # The rule of locks
//!
//! **No Python code runs under a lock of ours.** Python code is: a call of anything of the user's;
//! `__hash__`, `__eq__`, `__repr__`, an attribute; a warning, a line of a log, an import; a new object
//! that the garbage collector knows of; and *the end of an object*, of which any dropped `Py` may be
//! the last reference. All of it may give the GIL up, and then the next thread waits for our lock with
//! the GIL held, and the process hangs. Python code may call the same queue again, and then one thread hangs.
//!
//! So: ask Python first; then lock, copy or move out, and unlock; then call and drop. A lock is taken
//! with the GIL held, which is not given up before the lock is. (The core's locks are also taken without
//! the GIL, and nothing in the core waits for the GIL under one. The thread of the metrics endpoint takes locks without
//! the GIL too, between forks: `fork.rs`.) Hence no thread holds a lock of
//! this crate when a process forks.
//!
//! Beware of the guard that lives for longer than it seems: in `for x in a.lock().iter() { .. }`,
//! `match a.lock().get() { .. }` and `if let Some(x) = a.lock().pop() { .. }` it lives to the end of the block.
//!
//! One lock is held over Python code because that is its purpose: `Process::serial`, which keeps the
//! calls of a type's handler apart where several threads drain the type. Only drain threads take it,
//! around a handler's call alone, and they wait for it without the GIL.
//!
//! # The rule of finalisers
//!
//! **A finaliser of ours calls, reports and awaits nothing.** A finaliser is: a `Drop`, a `__clear__`, the callback of
//! a weak reference. It runs where the collector runs: on any thread, under any lock of the user's or of the standard
//! library's. A line of the log would wait there for the lock of a handler of the log, whose holder may wait for that
//! thread. So a finaliser marks, wakes, and gives references back; a thread of ours makes the report
//! (`batch/drop_reports.rs`). The `Drop` of a `Caller`, which calls `on_close`, is no finaliser: drain threads own the callers
//! (`batch/caller.rs`). One exception, as in Python itself: an awaitable that was never awaited warns, as a
//! coroutine does.

mod arguments;
mod batch;
mod callables;
mod columns;
mod core_errors;
mod ctrl_c;
mod deadline;
mod errors;
mod fork;
mod gil;
mod guarded_calls;
mod interpreter;
mod monitoring;
mod multi;
mod pickling;
mod python_calls;
mod sketch;
mod sources;
mod statistics;
mod thread;

use pyo3::prelude::*;

#[pymodule(gil_used = true)]
mod _native {
    use super::*;

    #[pymodule_export]
    use crate::batch::{
        buffer_strategy::BufferStrategy,
        config::BatchQueueConfig,
        drain_balancer::DrainBalancer,
        losses::batch_losses,
        partition_selector::PartitionSelector,
        queue::BatchQueue,
        shutdown::end_queues,
        size_policies::{PartitionPolicy, ThreadPolicy},
    };

    #[pymodule_export]
    use crate::columns::{check_sketches, merge_sketches, read_access_log, sketch_lists, sketch_percentiles};
    #[pymodule_export]
    use crate::monitoring::metrics_server::MetricsServer;
    #[pymodule_export]
    use crate::monitoring::python_functions::{
        answer_scrape, metric_families, observe_native, publish_samples, read_samples, unobserve_native,
        withdraw_samples,
    };
    #[pymodule_export]
    use crate::multi::{MultiQueue, QueueAwaitable, SubQueue};
    #[pymodule_export]
    use crate::sketch::{DDSketch, ExponentialHistogram};
    #[pymodule_export]
    use crate::sources::SetQueue;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::interpreter::check_is_first(module.py())?;
        crate::gil::learn_how_to_count(module.py());
        crate::errors::look_up(module.py())?;
        crate::multi::look_up(module.py())?;
        crate::fork::install_hook(module.py())?;
        crate::batch::produce::raw_method::install(module.py())?;
        module.add("__version__", drainq_core::VERSION)
    }
}
