//! Forks: one contract and one mechanism for all classes of this module.
//!
//! `os.fork` copies the whole memory, but only the calling thread. The contract, for every class: the child starts
//! empty and works, the parent keeps its items, nothing is delivered twice, and no lock is left taken.
//!
//! # Invariants
//! 1. Python code forks with the GIL held, or with all other attached threads stopped. So a lock is free in the child,
//!    and its data consistent, if threads keep the GIL while they hold the lock. Such locks need no treatment: those of
//!    the registries of queues, pools and forkable objects, of the handlers, and of the drops.
//! 2. Every other lock, and every item, lies in a [`ForkCell`]. The owner of the cell is registered ([`register`]) and
//!    replaces the value in the child, before other code of the child runs. The old value is leaked and never touched
//!    again, because its locks may be held by threads that the child does not have.
//! 3. The contract holds for a fork between calls. A fork in the middle of a call of drainq can happen only in user
//!    code that the call runs: a callback, a finaliser, a signal handler. The child must not return from there into the
//!    call, which would use the parent's value. It must end by itself, as a child of `multiprocessing` does. The same
//!    holds for a coroutine of the parent that the child resumes.
//! 4. Between the fork and the end of the renewal the garbage collector may run in the child, because Python's own
//!    fork hooks run first. The collection must not take a lock of a cell's value: while [`is_renewed`] is false,
//!    `__traverse__` visits nothing in a cell, and the collector frees no object that it did not visit.
//! 5. A thread that reads data without the GIL, while other threads write it with the GIL, reads in [`between_forks`].
//!    A fork waits until that read has ended, and no other begins until the fork is over. No lock is held while fork
//!    hooks of other modules run. So invariant 1 also holds for the locks that such a thread takes.
//! 6. The locks of the core have no state outside themselves (`sync/real.rs`), so that a child's new
//!    locks have nothing in common with the old ones.

use drainq_core::sync::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::process;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{OnceLock, Weak};

/// The id of the last process in which everything was renewed; at first of the process that loaded this module.
static RENEWED: AtomicU32 = AtomicU32::new(0);

/// The objects that replace something in a child, in the order of registration.
static REGISTERED: Mutex<Vec<Weak<dyn Renew>>> = Mutex::new(Vec::new());

/// Forks that were announced and are not over.
static ANNOUNCED: AtomicU32 = AtomicU32::new(0);

/// Held by a thread that reads without the GIL. A child gets a new lock.
static READING: OnceLock<ForkCell<Mutex<()>>> = OnceLock::new();

fn reading() -> &'static Mutex<()> {
    READING.get_or_init(|| ForkCell::new(Mutex::new(()))).get()
}

/// Runs `work`, which never waits for the GIL, while no fork happens; `None` during a fork (invariant 5).
pub fn between_forks<R>(work: impl FnOnce() -> R) -> Option<R> {
    let _reading = reading().lock();
    (ANNOUNCED.load(Ordering::Relaxed) == 0).then(work)
}

/// An object with a [`ForkCell`].
pub trait Renew: Send + Sync {
    /// Replaces the values of the cells. Runs in the child, as its only thread, with the GIL held; objects that were
    /// registered before are renewed already.
    fn renew_in_child(&self, py: Python<'_>);
}

/// Registers an object, which is renewed in every child as long as it lives.
pub fn register(object: Weak<dyn Renew>) {
    let mut registered = REGISTERED.lock();
    if registered.len() == registered.capacity() {
        registered.retain(|other| other.strong_count() > 0);
    }
    registered.push(object);
}

/// Asks Python to call this module before and after each fork. This is called while the module is loaded, so that in
/// the child the module's hook runs before the hooks of programs.
pub fn install_hook(py: Python<'_>) -> PyResult<()> {
    RENEWED.store(process::id(), Ordering::Relaxed);
    let os = py.import("os")?;
    if os.hasattr("register_at_fork")? {
        let module = PyModule::new(py, "drainq._native")?;
        let hooks = PyDict::new(py);
        hooks.set_item("before", wrap_pyfunction!(announce_fork, &module)?)?;
        hooks.set_item("after_in_parent", wrap_pyfunction!(end_fork, &module)?)?;
        hooks.set_item("after_in_child", wrap_pyfunction!(renew_all, &module)?)?;
        os.call_method("register_at_fork", (), Some(&hooks))?;
    }
    Ok(())
}

#[pyfunction]
fn announce_fork() {
    ANNOUNCED.fetch_add(1, Ordering::Relaxed);
    // A reader that holds the lock may not have seen the announcement. A later reader sees it.
    drop(reading().lock());
}

#[pyfunction]
fn end_fork() {
    ANNOUNCED.fetch_sub(1, Ordering::Relaxed);
}

#[pyfunction]
fn renew_all(py: Python<'_>) {
    if let Some(cell) = READING.get() {
        cell.replace_in_child(Mutex::new(()));
    }
    ANNOUNCED.store(0, Ordering::Relaxed);
    // Free in the child (invariant 1).
    let registered = REGISTERED.lock().clone();
    for object in registered.iter().filter_map(Weak::upgrade) {
        object.renew_in_child(py);
    }
    RENEWED.store(process::id(), Ordering::Relaxed);
}

/// Whether the locks of all cells are this process's own (invariant 4).
pub fn is_renewed() -> bool {
    RENEWED.load(Ordering::Relaxed) == process::id()
}

/// Holds a value for the life of the cell, or of the process if the process forks.
///
/// The pointer comes from `Box::into_raw`, changes only in [`ForkCell::replace_in_child`], and its target is freed by
/// the cell's `Drop` or, once replaced, never.
pub struct ForkCell<T>(AtomicPtr<T>);

impl<T> ForkCell<T> {
    /// Makes a cell with this value.
    pub fn new(value: T) -> Self {
        Self(AtomicPtr::new(Box::into_raw(Box::new(value))))
    }

    /// Returns the value.
    #[inline]
    pub fn get(&self) -> &T {
        // SAFETY: the pointer is valid as long as the cell, and a replaced value is never freed
        // (invariant 2).
        unsafe { &*self.0.load(Ordering::Acquire) }
    }

    /// Replaces the value and leaks the old one.
    ///
    /// Only call this in [`Renew::renew_in_child`].
    pub fn replace_in_child(&self, value: T) {
        self.0.store(Box::into_raw(Box::new(value)), Ordering::Release);
    }
}

impl<T> Drop for ForkCell<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a box, and `&mut self` means that nothing refers to the value.
        drop(unsafe { Box::from_raw(*self.0.get_mut()) });
    }
}
