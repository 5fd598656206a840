//! `drainq._native`: registers the names, and states two rules that every file of this crate keeps.
//!
//! # The rule of locks
//!
//! **No Python code runs under a lock of this crate.** Python code may release the GIL. The next thread would then wait
//! for the lock with the GIL held, and the process would hang. Python code may also call the same queue again, and hang
//! its own thread. Python code runs in:
//!
//! - a call of the user's code, including `__hash__`, `__eq__`, `__repr__` and the read of an attribute,
//! - a warning, a log line, an import,
//! - the creation of an object that the garbage collector tracks,
//! - *the end of an object*: any dropped `Py` may be its last reference.
//!
//! So call Python first; then lock, copy or move values out, and unlock; then call and drop. A lock is taken with the
//! GIL held, and released before the GIL is. Hence no thread holds a lock of this crate when a process forks. Without a
//! GIL read "attached to the interpreter" for "with the GIL held", here and in all files: a fork and a collection stop
//! the attached threads. A thread that holds a lock cannot be stopped, because it neither runs Python code nor waits
//! for an object's lock. The GIL's other effects are in three pairs of files: `with_gil.rs` and `without_gil.rs`, the
//! same names after `push_` in `batch/shared_queue`, and `batch/gil_yield.rs` and `batch/no_gil_yield.rs`. The table in
//! `docs/explain/gil.md` says what makes each thing safe without a GIL. (The core's locks are also taken without the
//! GIL, but nothing in the core waits for the GIL under them. The thread of the metrics endpoint takes locks without
//! the GIL too, between forks: `fork.rs`.)
//!
//! A guard may live for longer than it seems: in `for x in a.lock().iter() { .. }`, `match a.lock().get() { .. }` and
//! `if let Some(x) = a.lock().pop() { .. }` the guard lives to the end of the block.
//!
//! One lock is held while Python code runs, because that is its purpose: `Process::serial` keeps the calls of a type's
//! handler apart if several threads drain the type. Only drain threads take it, only around a handler's call, and they
//! wait for it without the GIL.
//!
//! # The rule of finalisers
//!
//! **A finaliser of this crate calls, reports and awaits nothing.** Finalisers are a `Drop`, a `__clear__` and the
//! callback of a weak reference. They run on any thread, under any lock of the user or of the standard library. A log
//! line, for example, would wait for the lock of a log handler, whose holder may wait for that very thread. So a
//! finaliser only marks, wakes and gives references back. A drainq thread makes the report (`batch/drop_reports.rs`).
//! The `Drop` of a `Caller`, which calls `on_close`, is no finaliser, because drain threads own the callers
//! (`batch/caller.rs`). One exception, as in Python itself: an awaitable that was never awaited warns.

mod arguments;
mod batch;
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
#[cfg_attr(not(Py_GIL_DISABLED), path = "with_gil.rs")]
#[cfg_attr(Py_GIL_DISABLED, path = "without_gil.rs")]
mod objects;
mod pickling;
mod python_calls;
mod sketch;
mod sources;
mod statistics;
mod thread;
mod waiting;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _native {
    use super::*;

    #[pymodule_export]
    use crate::arguments::{check_name, number, read_seconds, whole, whole_or_none};
    #[pymodule_export]
    use crate::batch::{
        config::{core_count, resolve_partitions},
        drain_balancer::DrainBalancer,
        losses::batch_losses,
        partition_selector::PartitionSelector,
        queue::{BatchQueue, shutdown::end_queues},
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
    use crate::multi::{MultiQueue, SubQueue};
    #[pymodule_export]
    use crate::sketch::{DDSketch, ExponentialHistogram};
    #[pymodule_export]
    use crate::sources::SetQueue;
    #[pymodule_export]
    use crate::waiting::awaitable::QueueAwaitable;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::interpreter::check_is_first(module.py())?;
        crate::objects::learn_how_to_count(module.py());
        crate::fork::install_hook(module.py())?;
        crate::batch::queue::raw_method::install(module.py())?;
        module.add("__version__", drainq_core::VERSION)
    }
}
