//! `BatchQueueManager`: the queues of a process by name.

use super::config::{self, BatchQueueConfig};
use super::queue::BatchQueue;
use super::shared_scheduler;
use super::shutdown;
use crate::arguments;
use crate::errors;
use drainq_core::sync::Mutex;
use pyo3::prelude::*;

/// Queues by name, in the order in which they were made. Never locked while Python runs.
static QUEUES: Mutex<Vec<(String, Py<BatchQueue>)>> = Mutex::new(Vec::new());

/// The queues of this process by name. All functions are called on the class.
///
/// Example:
///     >>> from drainq import BatchQueueConfig, BatchQueueManager, ThreadPolicy
///     >>> config = BatchQueueConfig(threads=ThreadPolicy.fixed(1))
///     >>> queue = BatchQueueManager.get_or_create("example", config)
///     >>> BatchQueueManager.get("example") is queue
///     True
///     >>> BatchQueueManager.shutdown("example")
///     True
///
/// Source: ``BatchQueueManager`` in SkyWalking's ``library-batch-queue``.
#[pyclass(module = "drainq", frozen)]
pub struct BatchQueueManager;

fn find(py: Python<'_>, name: &str) -> Option<Py<BatchQueue>> {
    let is_over = |queue: &Py<BatchQueue>| !queue.get().shared().queue().is_running();
    // Let go of when the lock is free again: the end of a queue may run Python code.
    let _gone: Vec<_> = QUEUES.lock().extract_if(.., |(_, queue)| is_over(queue)).collect();
    find_unforgotten(py, name)
}

/// Returns the queue of this name that was made last: a running one, or one whose shutdown was interrupted.
fn find_unforgotten(py: Python<'_>, name: &str) -> Option<Py<BatchQueue>> {
    QUEUES.lock().iter().rev().find(|(other, _)| other == name).map(|(_, queue)| queue.clone_ref(py))
}

fn all(py: Python<'_>) -> Vec<Py<BatchQueue>> {
    QUEUES.lock().iter().map(|(_, queue)| queue.clone_ref(py)).collect()
}

/// Forgets these queues. By now there may be others of their names, which stay.
fn forget(ended: &[Py<BatchQueue>]) {
    let is_ended = |queue: &Py<BatchQueue>| ended.iter().any(|other| other.is(queue));
    // Let go of when the lock is free again: the end of a queue may run Python code.
    let _forgotten: Vec<_> = QUEUES.lock().extract_if(.., |(_, queue)| is_ended(queue)).collect();
}

fn make(py: Python<'_>, name: &str, config: Py<BatchQueueConfig>) -> PyResult<Py<BatchQueue>> {
    let queue = BatchQueue::new(py, name.to_owned(), config)?;
    let mut queues = QUEUES.lock();
    // Making a queue runs Python code: another thread may have been quicker.
    let winner = queues.iter().find(|(other, at)| other == name && at.get().shared().queue().is_running());
    match winner.map(|(_, winner)| winner.clone_ref(py)) {
        Some(_) => {
            drop(queues);
            queue.get().shutdown(py, None)?;
            Err(duplicate(py, name))
        }
        None => {
            queues.push((name.to_owned(), queue.clone_ref(py)));
            Ok(queue)
        }
    }
}

fn duplicate(py: Python<'_>, name: &str) -> PyErr {
    errors::DUPLICATE_NAME
        .error(py, format!("there is a queue {name:?} already; take it with get({name:?}), or another name"))
}

fn unknown(name: &str) -> PyErr {
    let running = BatchQueueManager::names();
    let remedy = "missing_ok=True takes a name that has ended";
    errors::bad_key(format!("name must be that of a queue that runs, got {name:?}; running are {running:?}; {remedy}"))
}

#[pymethods]
impl BatchQueueManager {
    /// Make a queue of this name.
    ///
    /// Raises:
    ///     DuplicateName: there is one that is running.
    #[staticmethod]
    fn create(
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::name)] name: String,
        #[pyo3(from_py_with = config::argument)] config: Py<BatchQueueConfig>,
    ) -> PyResult<Py<BatchQueue>> {
        if find(py, &name).is_some() {
            return Err(duplicate(py, &name));
        }
        make(py, &name, config)
    }

    /// The queue of this name, made if there is none.
    ///
    /// Of two configurations the first one wins; a later one that differs in threads,
    /// partitions, buffer size, strategy or times is warned of.
    ///
    /// Raises:
    ///     ModeConflict: one configuration has a ``consumer`` and the other has none.
    #[staticmethod]
    fn get_or_create(
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::name)] name: String,
        #[pyo3(from_py_with = config::argument)] config: Py<BatchQueueConfig>,
    ) -> PyResult<Py<BatchQueue>> {
        let queue = match find(py, &name) {
            Some(queue) => queue,
            None => match make(py, &name, config.clone_ref(py)) {
                Ok(queue) => return Ok(queue),
                Err(error) => match find(py, &name) {
                    Some(queue) => queue,
                    None => return Err(error),
                },
            },
        };
        let (first, second) = (queue.get().config().get(), config.get());
        if first.grouping() != second.grouping() {
            let (is, asked) = if first.consumer.is_some() {
                ("one consumer for everything", "handlers by type")
            } else {
                ("handlers by type", "one consumer for everything")
            };
            return Err(errors::MODE_CONFLICT
                .error(py, format!("queue {name:?} has {is}, but was asked for with {asked}; take another name")));
        }
        if !first.same_infrastructure(py, second)? {
            errors::warn(
                py,
                &format!(
                    "queue {name:?} exists with other settings, which stay: {} (asked for: {})",
                    queue.get().config().bind(py).repr()?,
                    config.bind(py).repr()?
                ),
            )?;
        }
        Ok(queue)
    }

    /// The running queue of this name, or None.
    #[staticmethod]
    fn get(py: Python<'_>, #[pyo3(from_py_with = arguments::name)] name: String) -> Option<Py<BatchQueue>> {
        find(py, &name)
    }

    /// The names of the running queues, in the order in which they were made.
    #[staticmethod]
    fn names() -> Vec<String> {
        let queues = QUEUES.lock();
        let running = queues.iter().filter(|(_, queue)| queue.get().shared().queue().is_running());
        running.map(|(name, _)| name.clone()).collect()
    }

    /// Shut the queue of this name down and forget it.
    ///
    /// Args:
    ///     name: the queue's.
    ///     timeout: seconds for it; None: the queue's own setting.
    ///     missing_ok: True to do nothing where no queue has the name: where it was shut down before, say.
    /// Returns:
    ///     What its ``shutdown`` returns; True if ``missing_ok`` and there is no such queue.
    /// Raises:
    ///     KeyError: there is no queue of this name, and not ``missing_ok``.
    ///     WouldDeadlock: called from a handler of the queue.
    #[staticmethod]
    #[pyo3(signature = (name, timeout=None, *, missing_ok=false))]
    fn shutdown(
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::name)] name: String,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
        #[pyo3(from_py_with = arguments::missing_ok)] missing_ok: bool,
    ) -> PyResult<bool> {
        let Some(queue) = find_unforgotten(py, &name) else {
            return if missing_ok { Ok(true) } else { Err(unknown(&name)) };
        };
        let clean = queue.get().shutdown(py, timeout)?;
        forget(&[queue]);
        Ok(clean)
    }

    /// Shut all queues down, the first made first, and forget them; then end the shared
    /// schedulers.
    ///
    /// Args:
    ///     timeout: seconds for all of them together; None: each queue's own setting.
    /// Returns:
    ///     True if nothing was abandoned.
    /// Raises:
    ///     WouldDeadlock: called from a handler of one of them; all go on then.
    #[staticmethod]
    #[pyo3(signature = (timeout=None))]
    fn shutdown_all(py: Python<'_>, #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>) -> PyResult<bool> {
        let queues = all(py);
        let shared = queues.iter().map(|queue| queue.get().shared().clone()).collect();
        let clean = shutdown::end_all(py, shared, timeout)?;
        forget(&queues);
        shared_scheduler::stop_all();
        Ok(clean)
    }
}
