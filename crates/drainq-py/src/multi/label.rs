//! `Label`: the name by which the core knows a sub-queue.
//!
//! The label does not name the class `SubQueue`, which holds the label; a selection casts the object.

use crate::gil;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};

/// The key of a sub-queue, and a weak reference on the sub-queue's Python object.
pub struct Label {
    /// Visited by the garbage collector through the sub-queue that this names.
    pub key: Py<PyAny>,
    /// Weak, because the object owns the label.
    object: PyOnceLock<Py<PyWeakrefReference>>,
}

impl Label {
    /// Makes the label of a key, without an object.
    pub fn new(key: Py<PyAny>) -> Self {
        Self { key, object: PyOnceLock::new() }
    }

    /// Sets the Python object of the sub-queue. Called once for a label.
    pub fn set_object(&self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let weak = PyWeakrefReference::new(object)?.unbind();
        let _ = self.object.set(object.py(), weak);
        Ok(())
    }

    /// Returns the Python object while the object lives.
    pub fn object<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.object.get(py)?.bind(py).upgrade()
    }

    /// Returns the key as messages show the key.
    pub fn name(&self, py: Python<'_>) -> String {
        match gil::repr(self.key.bind(py)) {
            Ok(name) => name.to_string(),
            Err(_) => "<key without a repr>".to_owned(),
        }
    }
}
