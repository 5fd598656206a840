//! The deadline of a call, from its arguments `timeout` and `block`. `ctrl_c.rs` waits for it.

use crate::errors;
use pyo3::prelude::*;
use std::time::{Duration, Instant};

/// The moment at which a call gives up; `None` if it never does.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// Makes the deadline `timeout` seconds from now; `None` makes one that never comes.
    ///
    /// Raises ValueError if `timeout` is negative or not a number. A deadline that the machine's clock cannot represent
    /// never comes.
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

    /// Returns the time left, zero when the deadline has passed; `None` for the deadline that never comes.
    pub fn left(self) -> Option<Duration> {
        self.0.map(|end| end.saturating_duration_since(Instant::now()))
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
    /// Reads `block` and `timeout` as `queue.Queue` does. A negative timeout is refused always.
    pub fn new(block: bool, timeout: Option<f64>) -> PyResult<Self> {
        let deadline = Deadline::after("timeout", timeout)?;
        Ok(if block { Self::Until(deadline) } else { Self::No })
    }

    /// Returns a wait without a limit.
    pub fn for_ever() -> Self {
        Self::Until(Deadline::never())
    }
}
