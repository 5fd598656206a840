//! The errors of the core as Python exceptions, with their messages.
//!
//! The classes are in `errors.rs`. The caller of the core turns a refusal that is a plain text, such as that of a
//! setting, into a ValueError. A full partition of a batch queue is no error: the item is counted as rejected.

use crate::errors;
use drainq_core::multi::PutRefusal;
use drainq_core::sketch::SketchRefusal;
use pyo3::prelude::*;

/// The call from which a producer must return before there can be room.
#[derive(Clone, Copy)]
pub enum InCall {
    /// In a handler of the same queue.
    Handler,
    /// In the event loop that runs the handlers.
    EventLoop,
}

/// Makes the exception for a producer of the queue `name` that would wait for ever.
#[cold]
pub fn would_deadlock(py: Python<'_>, name: &str, within: InCall) -> PyErr {
    let message = match within {
        InCall::Handler => format!(
            "a handler of queue {name:?} waits for room in a full partition of the same queue, which only its own return \
             can make; use offer(item, timeout=0), IF_POSSIBLE, or a larger buffer_size or capacity"
        ),
        InCall::EventLoop => format!(
            "a producer of queue {name:?} waits for room in the event loop that runs its handlers, which alone can make \
             room; await produce_async(item)"
        ),
    };
    errors::WOULD_DEADLOCK.error(py, message)
}

/// Makes the exception for an item that the sub-queue `name` refuses for good.
#[cold]
pub fn of_put(py: Python<'_>, name: &str, capacity: impl FnOnce() -> usize, refusal: PutRefusal) -> PyErr {
    match refusal {
        PutRefusal::Full => errors::FULL.error(py, format!("sub-queue {name} is full (capacity {})", capacity())),
        PutRefusal::Orphaned => errors::SHUT_DOWN
            .error(py, format!("sub-queue {name} is full, and its multi-queue is gone: nothing makes room in it")),
        PutRefusal::Removed => errors::SUB_QUEUE_REMOVED
            .error(py, format!("sub-queue {name} was removed; nothing can be put into it any more")),
        PutRefusal::NoMemory => errors::no_memory(py),
        PutRefusal::ShutDown => errors::SHUT_DOWN
            .error(py, format!("the multi-queue of sub-queue {name} was shut down; nothing can be put into it")),
    }
}

/// Makes the exception for a sketch's refusal.
pub fn of_sketch(refusal: SketchRefusal) -> PyErr {
    match refusal {
        SketchRefusal::Count => errors::overflow(refusal.to_string()),
        _ => errors::bad_value(refusal.to_string()),
    }
}
