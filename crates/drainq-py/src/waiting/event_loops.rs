//! Notifies asyncio tasks: one `call_soon_threadsafe` for all tokens that a loop has not used yet.
//!
//! A waiting task sleeps on a future of its loop. Setting the future's result, in the loop's thread, notifies the task.
//! The task then tries again by itself, so a cancelled task has taken nothing.
//!
//! The futures are kept here and not in the core, because the garbage collector must see them through the owner of the
//! [`EventLoops`].
//!
//! A loop that is not running may run again, or never: its task is made ready in any case, and the token goes to the
//! next waiter. Waiting threads find a busy loop by its unused tokens (`blocking.rs`).
//!
//! # Invariants
//! 1. No Python code runs while `loops` is locked, and `loops` is only locked with the GIL held.
//! 2. While `is_scheduled` is set, a call of [`EventLoops::resume`] is due in the loop.

use crate::gil::PythonFunction;
use crate::{gil, python_calls};
use drainq_core::sync::Mutex;
use drainq_core::wait::tickets::Wake;
use pyo3::exceptions::PyException;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyFloat};
use std::collections::BTreeMap;
use std::sync::Arc;

struct EventLoop {
    event_loop: Py<PyAny>,
    futures: BTreeMap<u64, Py<PyAny>>,
    ready: Vec<u64>,
    is_scheduled: bool,
}

/// The tasks that sleep on one queue, by their loops.
#[derive(Default)]
pub struct EventLoops {
    loops: Mutex<ByAddress>,
}

#[derive(Default)]
struct ByAddress {
    /// By the address of the loop, which `event_loop` keeps alive.
    by_address: BTreeMap<usize, EventLoop>,
    issued: u64,
}

/// One sleeping task. Dropping it removes the task's future.
pub struct SleepingTask {
    all: Arc<EventLoops>,
    address: usize,
    number: u64,
}

/// Notifies one task.
struct TaskWaker {
    all: Arc<EventLoops>,
    address: usize,
    number: u64,
}

impl Wake for TaskWaker {
    fn wake(self: Box<Self>) -> bool {
        gil::held(|py| self.all.schedule(py, self.address, self.number)).unwrap_or(false)
    }
}

impl SleepingTask {
    /// Registers `future` of `event_loop`.
    pub fn new(all: &Arc<EventLoops>, event_loop: &Bound<'_, PyAny>, future: Py<PyAny>) -> Self {
        let address = event_loop.as_ptr() as usize;
        let mut loops = all.loops.lock();
        loops.issued += 1;
        let number = loops.issued;
        let entry = loops.by_address.entry(address).or_insert_with(|| EventLoop {
            event_loop: event_loop.clone().unbind(),
            futures: BTreeMap::new(),
            ready: Vec::new(),
            is_scheduled: false,
        });
        entry.futures.insert(number, future);
        Self { all: all.clone(), address, number }
    }

    /// Returns the waker that the core calls to notify the task.
    pub fn waker(&self) -> Box<dyn Wake> {
        Box::new(TaskWaker { all: self.all.clone(), address: self.address, number: self.number })
    }
}

impl Drop for SleepingTask {
    fn drop(&mut self) {
        let _dropped_without_the_lock = {
            let mut loops = self.all.loops.lock();
            let Some(entry) = loops.by_address.get_mut(&self.address) else {
                return;
            };
            let future = entry.futures.remove(&self.number);
            let is_over = entry.futures.is_empty();
            (future, if is_over { loops.by_address.remove(&self.address) } else { None })
        };
    }
}

impl EventLoops {
    /// Makes one task ready and has its loop resume the task; false if the loop does not run.
    fn schedule(self: &Arc<Self>, py: Python<'_>, address: usize, number: u64) -> bool {
        let (event_loop, is_scheduled) = {
            let mut loops = self.loops.lock();
            let Some(entry) = loops.by_address.get_mut(&address) else {
                return false;
            };
            entry.ready.push(number);
            (entry.event_loop.clone_ref(py), std::mem::replace(&mut entry.is_scheduled, true))
        };
        let event_loop = event_loop.bind(py);
        let scheduled = if is_scheduled { Ok(()) } else { self.call_soon(event_loop, address) };
        match scheduled.and_then(|()| gil::call_method(event_loop, "is_running", [])?.is_truthy()) {
            Ok(is_running) => is_running,
            Err(error) => {
                self.take_ready(address);
                report(py, error);
                false
            }
        }
    }

    fn call_soon(self: &Arc<Self>, event_loop: &Bound<'_, PyAny>, address: usize) -> PyResult<()> {
        let py = event_loop.py();
        static RUNNING: PythonFunction = PythonFunction::of("asyncio", "_get_running_loop");
        let running = RUNNING.call(py, ())?;
        let all = self.clone();
        let resume =
            PyCFunction::new_closure(py, Some(c"resume"), None, move |args, _| all.resume(args.py(), address))?;
        // In the loop's own thread its selector need not be interrupted.
        let method = if running.is(event_loop) { "call_soon" } else { "call_soon_threadsafe" };
        gil::call_method(event_loop, method, [resume.as_any()]).map(drop)
    }

    /// Runs in the loop's thread: notifies the tasks that are ready.
    fn resume(&self, py: Python<'_>, address: usize) -> PyResult<()> {
        self.take_ready(address).iter().try_for_each(|future| resume_task(future.bind(py)))
    }

    /// Takes the futures of the ready tasks that still sleep; the next token schedules a call anew.
    fn take_ready(&self, address: usize) -> Vec<Py<PyAny>> {
        let mut loops = self.loops.lock();
        let Some(entry) = loops.by_address.get_mut(&address) else {
            return Vec::new();
        };
        entry.is_scheduled = false;
        let ready = std::mem::take(&mut entry.ready);
        ready.iter().filter_map(|number| entry.futures.remove(number)).collect()
    }

    /// Shows the futures and loops to the garbage collector.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        for entry in self.loops.lock().by_address.values() {
            visit.call(&entry.event_loop)?;
            for future in entry.futures.values() {
                visit.call(future)?;
            }
        }
        Ok(())
    }
}

/// Ends the sleep of a task, in the thread of its loop.
fn resume_task(future: &Bound<'_, PyAny>) -> PyResult<()> {
    if !gil::call_method(future, "done", [])?.is_truthy()? {
        gil::call_method(future, "set_result", [future.py().None().bind(future.py())])?;
    }
    Ok(())
}

/// Has the loop end the sleep of a task at this time of the loop's clock; returns the loop's handle, to be cancelled.
pub fn resume_at<'py>(
    event_loop: &Bound<'py, PyAny>,
    time: f64,
    future: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = future.py();
    let resume = PyCFunction::new_closure(py, Some(c"resume"), None, |arguments, _| -> PyResult<()> {
        resume_task(&arguments.get_item(0)?)
    })?;
    gil::call_method(event_loop, "call_at", [PyFloat::new(py, time).as_any(), resume.as_any(), future])
}

/// Reports an exception that is no `Exception`, such as Ctrl-C. Ignores any other, such as that of a closed loop.
pub fn report(py: Python<'_>, error: PyErr) {
    if !error.is_instance_of::<PyException>(py) {
        python_calls::report_unraised(py, error);
    }
}
