//! `Label`: the name by which the core knows a sub-queue.
//!
//! The label does not name the class `SubQueue`, which holds the label; a selection casts the object.

use crate::errors;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyInt, PyString, PyWeakrefMethods, PyWeakrefReference};

/// The most characters of a key's text.
const LONGEST_TEXT: usize = 200;

/// The key of a sub-queue, and a weak reference on the sub-queue's Python object.
pub struct Label {
    /// Visited by the garbage collector through the sub-queue that this names.
    pub key: Py<PyAny>,
    /// Weak, because the object owns the label.
    object: PyOnceLock<Py<PyWeakrefReference>>,
    /// The key for readers without the GIL.
    text: Box<str>,
}

impl Label {
    /// Makes the label of a key, without an object.
    pub fn new(key: Bound<'_, PyAny>) -> Self {
        Self { text: text_of(&key), key: key.unbind(), object: PyOnceLock::new() }
    }

    /// Returns the key as a text: a string or an integer itself, the class of any other key.
    pub fn text(&self) -> &str {
        &self.text
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

    /// Returns the key as messages show it.
    pub fn name(&self, py: Python<'_>) -> String {
        errors::shown(self.key.bind(py))
    }
}

/// Returns the text of a key, without running the key's code.
fn text_of(key: &Bound<'_, PyAny>) -> Box<str> {
    let text = match (key.cast_exact::<PyString>(), key.cast_exact::<PyInt>()) {
        (Ok(text), _) => text.to_string_lossy().into_owned(),
        (_, Ok(number)) => number.to_string(),
        _ => key.get_type().name().map_or_else(|_| "?".to_owned(), |name| format!("<{name}>")),
    };
    text.chars().take(LONGEST_TEXT).collect::<String>().into()
}
