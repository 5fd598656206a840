//! The core's types with Python objects in them.

use super::sub_queue::SubQueue;
use crate::fork::{self, Renew};
use crate::gil;
use drainq_core::multi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};
use std::sync::Arc;

/// What the core knows a sub-queue by.
pub struct Label {
    /// Visited by the garbage collector through the sub-queue that this names.
    pub key: Py<PyAny>,
    /// The Python object of the sub-queue; weak, for it owns the label.
    object: PyOnceLock<Py<PyWeakrefReference>>,
}

impl Label {
    pub fn new(key: Py<PyAny>) -> Self {
        Self { key, object: PyOnceLock::new() }
    }

    /// Ties the Python object to its label.
    pub fn set_object(&self, object: &Bound<'_, SubQueue>) -> PyResult<()> {
        let weak = PyWeakrefReference::new(object)?.unbind();
        // A label is given one object, once.
        let _ = self.object.set(object.py(), weak);
        Ok(())
    }

    /// The Python object, while it lives.
    pub fn sub_queue<'py>(&self, py: Python<'py>) -> Option<Bound<'py, SubQueue>> {
        self.object.get(py)?.bind(py).upgrade()?.cast_into().ok()
    }

    /// The key as messages show it.
    pub fn name(&self, py: Python<'_>) -> String {
        match gil::repr(self.key.bind(py)) {
            Ok(name) => name.to_string(),
            Err(_) => "<key without a repr>".to_owned(),
        }
    }
}

pub type Core = multi::MultiQueue<Py<PyAny>, Arc<Label>>;
pub type SubCore = multi::SubQueue<Py<PyAny>, Arc<Label>>;
pub type Wait = multi::Wait<Py<PyAny>, Arc<Label>>;

impl Renew for multi::Shared<Py<PyAny>, Arc<Label>> {
    /// Its lock is taken with the GIL held, and given back before that is given up.
    fn renew_in_child(&self, _py: Python<'_>) {
        self.restart_in_child();
    }
}

/// Has a multi-queue start empty in every forked child.
pub fn restart_in_children(core: &Core) {
    fork::register(Arc::downgrade(core.shared()) as std::sync::Weak<dyn Renew>);
}
