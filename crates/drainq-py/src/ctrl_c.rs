//! Waiting that Ctrl-C ends: a blocked call wakes up once in a while and handles pending signals. A produce call that
//! waits for room does so in a loop of its own, in `batch/produce/wait_for_room.rs`.

use crate::deadline::Deadline;
use crate::gil;
use pyo3::prelude::*;
use std::time::Duration;

/// A blocked call checks for pending signals once in this time; Ctrl-C is to work within 50 ms.
const SIGNAL_SLICE: Duration = Duration::from_millis(25);

/// Returns the time until the deadline, at most one signal slice; zero when the deadline has passed.
pub fn slice(deadline: Deadline) -> Duration {
    deadline.left().map_or(SIGNAL_SLICE, |left| left.min(SIGNAL_SLICE))
}

/// Calls `attempt` with the GIL given up until `attempt` has an answer or the deadline passes.
///
/// `attempt` gets the longest time for which it may block: one signal slice. After each attempt,
/// successful or not, pending signals are handled, so a Python signal handler may raise here.
/// So a caller that takes or puts an item after its wait alone has done neither when a signal during the
/// wait ends the call.
///
/// Returns `None` when the deadline has passed without an answer.
pub fn wait<R: Send>(
    py: Python<'_>,
    deadline: Deadline,
    mut attempt: impl Send + FnMut(Duration) -> Option<R>,
) -> PyResult<Option<R>> {
    loop {
        let slice = slice(deadline);
        let answer = gil::released(py, || attempt(slice));
        py.check_signals()?;
        if answer.is_some() || deadline.passed() {
            return Ok(answer);
        }
    }
}

/// Has a KeyboardInterrupt that must not be raised here come again in the main thread, once the call has returned.
///
/// The call of `interrupt_main` is native, because Python code would be interrupted at once.
pub fn come_again(py: Python<'_>) {
    let again = py.import("_thread").and_then(|thread| gil::call_method(thread.as_any(), "interrupt_main", []));
    if let Err(error) = again {
        error.write_unraisable(py, None);
    }
}
