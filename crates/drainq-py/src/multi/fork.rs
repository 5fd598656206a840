//! A forked child must not touch its parent's queues: their locks may be held for ever there,
//! and their items belong to the parent.
//!
//! `os.register_at_fork` counts the forks that this process descends from; an [`Owned`]
//! remembers the count at its birth, refuses access in a child, and leaks there.

use crate::errors;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyDict};
use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Sees to it that forks are counted; called before the first queue is made.
pub fn watch(py: Python<'_>) -> PyResult<()> {
    static WATCHED: PyOnceLock<()> = PyOnceLock::new();
    WATCHED.get_or_try_init(py, || {
        let os = py.import("os")?;
        if os.hasattr("register_at_fork")? {
            let count = PyCFunction::new_closure(py, None, None, |_, _| {
                FORKS.fetch_add(1, Ordering::Relaxed);
            })?;
            let hooks = PyDict::new(py);
            hooks.set_item("after_in_child", count)?;
            os.call_method("register_at_fork", (), Some(&hooks))?;
        }
        Ok::<_, PyErr>(())
    })?;
    Ok(())
}

/// A value of the process that made it.
pub struct Owned<T> {
    /// Empty only while it is dropped.
    value: Option<T>,
    forks: u32,
}

impl<T> Owned<T> {
    /// A value of this process.
    pub fn new(value: T) -> Self {
        Self { value: Some(value), forks: FORKS.load(Ordering::Relaxed) }
    }

    #[inline]
    fn is_here(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }

    /// The value; raises ShutDown in a forked child.
    #[inline]
    pub fn get(&self, py: Python<'_>) -> PyResult<&T> {
        self.here().ok_or_else(|| closed_in_child(py))
    }

    /// The value, unless this is a forked child.
    #[inline]
    pub fn here(&self) -> Option<&T> {
        if self.is_here() { self.value.as_ref() } else { None }
    }

    /// As [`Owned::here`], to change it.
    pub fn here_mut(&mut self) -> Option<&mut T> {
        if self.is_here() { self.value.as_mut() } else { None }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if !self.is_here() {
            std::mem::forget(self.value.take());
        }
    }
}

#[cold]
fn closed_in_child(py: Python<'_>) -> PyErr {
    errors::SHUT_DOWN.error(py, "this queue and its items belong to the parent process; make a new one after the fork")
}
