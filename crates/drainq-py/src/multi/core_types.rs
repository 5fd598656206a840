//! The core's types over Python objects, and their renewal in a forked child.

use super::label::Label;
use crate::fork::{self, Renew};
use drainq_core::multi;
use pyo3::prelude::*;
use std::sync::{Arc, Weak};

/// The core's multi-queue.
pub type Core = multi::MultiQueue<Py<PyAny>, Arc<Label>>;
/// The core's sub-queue.
pub type SubCore = multi::SubQueue<Py<PyAny>, Arc<Label>>;
/// A waiter's position, for getters or for the putters of a sub-queue.
pub type Wait = multi::Wait<Py<PyAny>, Arc<Label>>;

impl Renew for multi::MultiShared<Py<PyAny>, Arc<Label>> {
    /// Empties the multi-queue. Its lock is free in the child, because a thread that holds the lock also holds the GIL,
    /// or reads between forks.
    fn renew_in_child(&self, _py: Python<'_>) {
        self.restart_in_child();
    }
}

/// Registers a multi-queue, which starts empty in every forked child.
pub fn restart_in_children(core: &Core) {
    fork::register(Arc::downgrade(core.shared()) as Weak<dyn Renew>);
}
