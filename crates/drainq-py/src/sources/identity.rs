//! Compares keys: two Python objects are the same key if their hashes are equal and they are identical or equal.
//!
//! `__hash__` and `__eq__` are foreign code, which may raise, take locks, or use the queue that calls it. So they never
//! run under the queue's lock.
//!
//! # Invariants
//! 1. The hash is taken before the queue is locked.
//! 2. [`Identity::same`], which runs under the lock, decides by identity, by comparing two numbers, two texts or two
//!    bytes of built-in types, or by an earlier answer. No foreign code runs. A text is never compared with bytes, nor
//!    bytes with a number: they differ, and ``python -b`` would warn.
//! 3. [`Identity::ask`] runs the foreign `__eq__` with no lock held and keeps the answer with a reference to the
//!    compared object; so the answer stays true however the queue changes, and no object is compared twice.

use crate::{errors, gil};
use drainq_core::sources::set_queue::Same;
use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyString};

/// A key that is being looked up.
pub struct Identity {
    key: Py<PyAny>,
    hash: u64,
    answers: Vec<(Py<PyAny>, bool)>,
}

impl Identity {
    /// Takes the key's hash.
    ///
    /// Raises TypeError if the key has no hash.
    #[inline]
    pub fn of(key: Bound<'_, PyAny>) -> PyResult<Self> {
        match key.hash() {
            Ok(hash) => Ok(Self { hash: hash as u64, key: key.unbind(), answers: Vec::new() }),
            Err(error) => Err(explained(key.py(), error)),
        }
    }

    /// Returns the hash.
    #[inline]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns a reference to the key itself.
    #[inline]
    pub fn key(&self, py: Python<'_>) -> Py<PyAny> {
        self.key.clone_ref(py)
    }

    /// Whether `known` is the same key; unsure if only [`ask`](Self::ask) can decide.
    #[inline]
    pub fn same(&self, py: Python<'_>, known: &Py<PyAny>) -> Same {
        if known.is(&self.key) {
            return Same::Yes;
        }
        let (known, key) = (known.bind(py), self.key.bind(py));
        if let (Some(ours), Some(theirs)) = (Plain::of(key), Plain::of(known)) {
            if ours != theirs {
                return Same::No;
            }
            return known.eq(key).map_or(Same::Unsure, Same::from);
        }
        let answer = self.answers.iter().find(|(asked, _)| asked.is(known));
        answer.map_or(Same::Unsure, |(_, answer)| Same::from(*answer))
    }

    /// Compares with `known` by its `__eq__` and keeps the answer.
    pub fn ask(&mut self, known: Bound<'_, PyAny>) -> PyResult<()> {
        let answer = gil::are_equal(&known, self.key.bind(known.py()))?;
        self.answers.push((known.unbind(), answer));
        Ok(())
    }

    /// Shows the key and the compared objects to the garbage collector.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.key)?;
        self.answers.iter().try_for_each(|(asked, _)| visit.call(asked))
    }
}

/// Objects whose comparison with others of their kind runs no foreign code, and that differ from all objects of the
/// other kinds.
#[derive(PartialEq, Eq)]
enum Plain {
    Number,
    Text,
    Bytes,
}

impl Plain {
    #[inline]
    fn of(object: &Bound<'_, PyAny>) -> Option<Self> {
        if object.is_exact_instance_of::<PyInt>() || object.is_exact_instance_of::<PyFloat>() {
            Some(Self::Number)
        } else if object.is_exact_instance_of::<PyString>() {
            Some(Self::Text)
        } else if object.is_exact_instance_of::<PyBytes>() {
            Some(Self::Bytes)
        } else {
            None
        }
    }
}

#[cold]
fn explained(py: Python<'_>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyTypeError>(py) {
        return error;
    }
    let clear = errors::bad_type(format!(
        "an item's key must be hashable ({}); give the queue a key=, such as key=lambda row: row['id']",
        error.value(py)
    ));
    clear.set_cause(py, Some(error));
    clear
}
