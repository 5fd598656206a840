//! Waits that Ctrl-C ends: a blocked call wakes up regularly and handles pending signals. A produce call has its own
//! loop for this in `batch/shared_queue/wait_for_room.rs`.

use crate::deadline::Deadline;
use crate::gil;
use pyo3::ffi;
use pyo3::prelude::*;
use std::time::Duration;

/// The time between two checks for pending signals of a blocked call; Ctrl-C must work within 50 ms.
const SIGNAL_SLICE: Duration = Duration::from_millis(25);

/// Returns the time until the deadline, at most one signal slice; zero when the deadline has passed.
pub fn slice(deadline: Deadline) -> Duration {
    deadline.left().map_or(SIGNAL_SLICE, |left| left.min(SIGNAL_SLICE))
}

/// Calls `attempt` with the GIL released until `attempt` has an answer or the deadline passes.
///
/// `attempt` gets the longest time for which it may block: one signal slice. After each attempt, successful or not,
/// pending signals are handled, so a Python signal handler may raise here. A caller must therefore take or put its item
/// after the wait, so that a signal during the wait ends the call without either.
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

/// Makes the main thread raise a KeyboardInterrupt after this call has returned, because this call must not raise it.
pub fn come_again(_py: Python<'_>) {
    // SAFETY: the GIL is held, and the function only marks the signal as pending.
    unsafe { ffi::PyErr_SetInterrupt() };
}
