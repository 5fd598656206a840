//! Compares keys: two Python objects are the same key if their hashes are equal and they are identical or equal.
//!
//! `__hash__` and `__eq__` are foreign code, which may raise, take locks, or use the queue that calls it. So they never
//! run under the queue's lock.
//!
//! # Invariants
//! 1. The hash is taken before the queue is locked.
//! 2. [`Identity::same`], which runs under the lock, decides by identity, by comparing two numbers, two texts or two
//!    bytes objects of built-in types, or by an earlier answer. No foreign code runs. A text is never compared with
//!    bytes, nor bytes with a number: they differ, and ``python -b`` would warn.
//! 3. [`Identity::ask`] runs the foreign `__eq__` with no lock held and keeps the answer with a reference to the
//!    compared object; so the answer stays true however the queue changes, and no object is compared twice.

use crate::{errors, gil};
use drainq_core::sources::identity_table::{EntryId, EntryState, IdentityTable, Lookup, Same};
use drainq_core::sync::{Mutex, MutexGuard};
use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyString};

/// An item that a queue knows: waiting, in flight or remembered.
pub struct KnownItem {
    /// The item's identity.
    pub key: Py<PyAny>,
    /// The item; `None` if the item is its own key, was taken, or is kept elsewhere.
    pub item: Option<Py<PyAny>>,
}

/// The locked state, and the number and state of the entry that was found.
pub type Located<'a, S> = (MutexGuard<'a, S>, Option<(EntryId, EntryState)>);

/// A key that is being looked up.
pub struct Identity {
    key: Py<PyAny>,
    hash: u64,
    answers: Vec<(Py<PyAny>, bool)>,
}

impl Identity {
    /// Takes the hash of an item's key: what `key` returns for the item, or the item itself.
    ///
    /// Raises TypeError if the key has no hash.
    #[inline]
    pub fn of(item: &Bound<'_, PyAny>, key: Option<&Py<PyAny>>) -> PyResult<Self> {
        let key = match key {
            None => item.clone(),
            Some(key) => gil::call(key.bind(item.py()), [item])?,
        };
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

    /// Locks the state and finds the key in its table. The answer holds while the lock is held.
    #[inline]
    pub fn locate<'a, S>(
        &mut self,
        py: Python<'_>,
        state: &'a Mutex<S>,
        table: impl Fn(&S) -> &IdentityTable<KnownItem>,
    ) -> PyResult<Located<'a, S>> {
        loop {
            let state = state.lock();
            let found = match table(&state).find(self.hash, |entry| self.same(py, &entry.key)) {
                Lookup::Absent => None,
                Lookup::Known(entry, state) => Some((entry, state)),
                Lookup::Unsure(entry) => {
                    let known = entry.key.clone_ref(py).into_bound(py);
                    drop(state);
                    self.ask(known)?;
                    continue;
                }
            };
            return Ok((state, found));
        }
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
