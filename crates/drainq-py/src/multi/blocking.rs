//! Blocked calls of threads: the protocol of the core's `Wait`, with Ctrl-C.

use super::handle::Wait;
use crate::deadline::{self, Deadline};
use drainq_core::multi::{Sleeper, Stalled};
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

/// Which attempt of a call it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// If it fails the call waits and tries again.
    MayWait,
    /// If it fails the call gives up.
    Last,
}

/// Calls `attempt` until it has an answer, waiting in line in between; `None` if time ran out.
///
/// The GIL is given up only to sleep, and taken back to look for signals only on the thread that
/// hears them: a hundred blocked threads do not disturb the others. A signal that comes during the
/// sleep is handled before the next attempt. Whatever ends the wait, a wake-up that was under way
/// goes to the next in line and what was held goes back: `wait` is dropped here.
pub fn until<R>(
    py: Python<'_>,
    mut wait: Wait,
    patience: Patience,
    mut attempt: impl FnMut(&mut Wait, Attempt) -> PyResult<Option<R>>,
) -> PyResult<Option<R>> {
    let Patience::Until(deadline) = patience else {
        return attempt(&mut wait, Attempt::Last);
    };
    if let Some(answer) = attempt(&mut wait, Attempt::MayWait)? {
        return Ok(Some(answer));
    }
    let (mut sleeper, hears_signals) = (Sleeper::default(), hears_signals(py)?);
    loop {
        wait.enter(sleeper.waker());
        let next = match sleep(py, &mut sleeper, &mut wait, deadline, hears_signals)? {
            true => Attempt::MayWait,
            false => Attempt::Last,
        };
        if let Some(answer) = attempt(&mut wait, next)? {
            return Ok(Some(answer));
        }
        if next == Attempt::Last {
            return Ok(None);
        }
    }
}

/// Why a sleeping thread stirs.
enum Stir {
    Woken,
    /// Others in line have been woken and do not run.
    Beside(Stalled),
}

/// Sleeps in line; false if time ran out. No lock is taken without the GIL, so a fork finds it free.
fn sleep(
    py: Python<'_>,
    sleeper: &mut Sleeper,
    wait: &mut Wait,
    deadline: Deadline,
    hears_signals: bool,
) -> PyResult<bool> {
    loop {
        let (sleeper, line) = (&mut *sleeper, &mut *wait);
        let stir = deadline::wait(py, deadline, move |_slice| {
            loop {
                if sleeper.sleep_for(deadline.slice()) {
                    return Some(Stir::Woken);
                }
                if let Some(stalled) = line.find_stalled() {
                    return Some(Stir::Beside(stalled));
                }
                if hears_signals || deadline.passed() {
                    return None;
                }
            }
        })?;
        match stir {
            Some(Stir::Woken) => return Ok(true),
            Some(Stir::Beside(stalled)) => wait.pass_stalled_on(stalled),
            None => return Ok(false),
        }
    }
}
