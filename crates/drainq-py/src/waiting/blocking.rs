//! Blocking calls of threads, which Ctrl-C may end.

use super::WaitingPlace;
use crate::ctrl_c;
use crate::deadline::{Deadline, MayWait};
use crate::gil::PythonFunction;
use drainq_core::wait::thread::WaitingThread;
use drainq_core::wait::tickets::Stalled;
use pyo3::prelude::*;

/// Whether signal handlers run on this thread: Python runs them only on the main thread.
fn runs_signal_handlers(py: Python<'_>) -> PyResult<bool> {
    static CURRENT: PythonFunction = PythonFunction::of("threading", "get_ident");
    static MAIN: PythonFunction = PythonFunction::of("threading", "main_thread");
    CURRENT.call(py, ())?.eq(MAIN.call(py, ())?.getattr("ident")?)
}

/// The next step of a call whose try had no result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Otherwise {
    /// The call waits and tries again.
    Wait,
    /// The call gives up.
    GiveUp,
}

/// Calls `attempt` until there is a result, waiting in between; `None` if the time ran out.
///
/// The GIL is released only to sleep. Only the thread that runs signal handlers takes it back for pending signals, so a
/// hundred blocked threads do not disturb the others. The handler of a signal that comes during the sleep runs before
/// the next try. However the call ends, dropping `waiter` passes an unused token to the next waiter, and gives held
/// items back to their sub-queues.
pub fn until<W: WaitingPlace, R>(
    py: Python<'_>,
    mut waiter: W,
    may_wait: MayWait,
    mut attempt: impl FnMut(&mut W, Otherwise) -> PyResult<Option<R>>,
) -> PyResult<Option<R>> {
    let MayWait::Until(deadline) = may_wait else {
        return attempt(&mut waiter, Otherwise::GiveUp);
    };
    if let Some(result) = attempt(&mut waiter, Otherwise::Wait)? {
        return Ok(Some(result));
    }
    let (mut sleeper, runs_signal_handlers) = (WaitingThread::default(), runs_signal_handlers(py)?);
    loop {
        waiter.enter(sleeper.waker());
        let otherwise = sleep(py, &mut sleeper, &mut waiter, deadline, runs_signal_handlers)?;
        if let Some(result) = attempt(&mut waiter, otherwise)? {
            return Ok(Some(result));
        }
        if otherwise == Otherwise::GiveUp {
            return Ok(None);
        }
    }
}

/// The reason why a thread's sleep ends before the deadline.
enum WokenBy {
    /// The thread was notified.
    Notified,
    /// Other waiters were notified but do not run.
    OthersStalled(Stalled),
}

/// Sleeps until this waiter is notified, or the deadline. Takes no lock without the GIL, so that a forked child finds
/// the locks free.
fn sleep(
    py: Python<'_>,
    sleeper: &mut WaitingThread,
    waiter: &mut impl WaitingPlace,
    deadline: Deadline,
    runs_signal_handlers: bool,
) -> PyResult<Otherwise> {
    loop {
        let (sleeper, others) = (&mut *sleeper, &mut *waiter);
        let woken_by = ctrl_c::wait(py, deadline, move |_slice| {
            loop {
                if sleeper.sleep_for(ctrl_c::slice(deadline)) {
                    return Some(WokenBy::Notified);
                }
                if let Some(stalled) = others.find_stalled() {
                    return Some(WokenBy::OthersStalled(stalled));
                }
                if runs_signal_handlers || deadline.passed() {
                    return None;
                }
            }
        })?;
        match woken_by {
            Some(WokenBy::Notified) => return Ok(Otherwise::Wait),
            Some(WokenBy::OthersStalled(stalled)) => waiter.pass_stalled_on(stalled),
            None => return Ok(Otherwise::GiveUp),
        }
    }
}
