//! Blocked calls of threads: the protocol of the core's `Wait`, with Ctrl-C.

use super::handle::Wait;
use crate::deadline::{self, Deadline};
use drainq_core::sync::Parker;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// How long a call may block.
#[derive(Clone, Copy)]
pub enum Patience {
    /// Try once.
    None,
    /// Until the deadline.
    Until(Deadline),
}

impl Patience {
    /// Reads `block` and `timeout` as `queue.Queue` does; a negative timeout is refused always.
    pub fn new(block: bool, timeout: Option<f64>) -> PyResult<Self> {
        let deadline = Deadline::after("timeout", timeout)?;
        Ok(if block { Self::Until(deadline) } else { Self::None })
    }

    /// No limit.
    pub fn for_ever() -> Self {
        Self::Until(Deadline::never())
    }
}

/// Whether signal handlers run on this thread: Python runs them on the main thread alone.
fn hears_signals(py: Python<'_>) -> PyResult<bool> {
    static CURRENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static MAIN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let current = CURRENT.import(py, "threading", "get_ident")?.call0()?;
    let main = MAIN.import(py, "threading", "main_thread")?.call0()?;
    current.eq(main.getattr("ident")?)
}

/// Calls `attempt` until it has an answer, waiting in line in between; `None` if time ran out.
///
/// The GIL is given up only to sleep, and taken back to look for signals only on the thread that
/// hears them: a hundred blocked threads do not disturb the others. Whatever ends the wait, a wake-up that was under way
/// goes to the next in line: `wait` is dropped here.
pub fn until<R>(
    py: Python<'_>,
    mut wait: Wait,
    patience: Patience,
    mut attempt: impl FnMut() -> PyResult<Option<R>>,
) -> PyResult<Option<R>> {
    if let Some(answer) = attempt()? {
        return Ok(Some(answer));
    }
    let Patience::Until(deadline) = patience else {
        return Ok(None);
    };
    let (mut parker, hears_signals) = (Parker::new(), hears_signals(py)?);
    loop {
        wait.enter(Box::new(parker.unparker().clone()));
        let (sleeper, line) = (&mut parker, &wait);
        let is_woken = deadline::wait(py, deadline, move |_slice| {
            loop {
                sleeper.park_timeout(deadline.slice());
                if line.is_notified() {
                    return Some(());
                }
                if hears_signals || deadline.passed() {
                    return None;
                }
            }
        })?;
        if let Some(answer) = attempt()? {
            return Ok(Some(answer));
        }
        if is_woken.is_none() {
            return Ok(None);
        }
    }
}
