//! Waiting that Ctrl-C ends: how long, and in what slices.

use crate::fork::Generation;
use crate::{errors, gil};
use pyo3::prelude::*;
use std::time::{Duration, Instant};

/// A blocked call checks for pending signals once in this time; Ctrl-C is to work within 50 ms.
const SIGNAL_SLICE: Duration = Duration::from_millis(25);

/// The moment at which a call gives up; `None` never comes.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// Makes the deadline `timeout` seconds from now; ``None`` never comes.
    ///
    /// Raises ValueError if `timeout` is negative or not a number. A timeout beyond what the
    /// machine's clock can hold never comes.
    pub fn after(name: &str, timeout: Option<f64>) -> PyResult<Self> {
        let Some(seconds) = timeout else { return Ok(Self(None)) };
        if seconds.is_nan() || seconds < 0.0 {
            return Err(errors::bad_value(format!(
                "{name} must be None (wait for ever) or a number of seconds >= 0, got {seconds}"
            )));
        }
        let end = Duration::try_from_secs_f64(seconds).ok().and_then(|wait| Instant::now().checked_add(wait));
        Ok(Self(end))
    }

    /// Makes the deadline that never comes.
    pub fn never() -> Self {
        Self(None)
    }

    /// Returns the time left, at most one signal slice; zero when the deadline has passed.
    pub fn slice(self) -> Duration {
        match self.0 {
            None => SIGNAL_SLICE,
            Some(end) => end.saturating_duration_since(Instant::now()).min(SIGNAL_SLICE),
        }
    }

    /// Whether the deadline has passed.
    pub fn passed(self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }
}

/// Whether a call may wait, and until when.
#[derive(Clone, Copy, Debug)]
pub enum MayWait {
    /// The call tries once.
    No,
    /// The call waits until the deadline.
    Until(Deadline),
}

impl MayWait {
    /// Reads `block` and `timeout` as `queue.Queue` does; a negative timeout is refused always.
    pub fn new(block: bool, timeout: Option<f64>) -> PyResult<Self> {
        let deadline = Deadline::after("timeout", timeout)?;
        Ok(if block { Self::Until(deadline) } else { Self::No })
    }

    /// Returns a wait without a limit.
    pub fn for_ever() -> Self {
        Self::Until(Deadline::never())
    }
}

/// Calls `attempt` with the GIL given up until `attempt` has an answer or the deadline passes.
///
/// `attempt` gets the longest time for which it may block: one signal slice. After each attempt,
/// successful or not, pending signals are handled, so a Python signal handler may raise here.
/// So a caller that takes or puts an item after its wait alone has done neither when a signal during the
/// wait ends the call.
///
/// Returns `None` when the deadline has passed without an answer. In the child of a fork that a signal
/// handler made, this raises DrainqError, because the parent has what the call waits for.
pub fn wait<R: Send>(
    py: Python<'_>,
    deadline: Deadline,
    mut attempt: impl Send + FnMut(Duration) -> Option<R>,
) -> PyResult<Option<R>> {
    let begun_in = Generation::now();
    loop {
        let slice = deadline.slice();
        let answer = gil::released(py, || attempt(slice));
        let interrupted = py.check_signals();
        if begun_in.is_past() {
            return Err(forked(py));
        }
        interrupted?;
        if answer.is_some() || deadline.passed() {
            return Ok(answer);
        }
    }
}

/// Makes the DrainqError of a call that waited when a signal handler forked, in the child.
pub fn forked(py: Python<'_>) -> PyErr {
    errors::DRAINQ_ERROR
        .error(py, "the process forked during this call, which goes on in the parent; call again in the child")
}
