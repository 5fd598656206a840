//! Sub-queues without duplicates: an item is left out while an equal one waits.
//!
//! # Invariants
//! 1. All items of such a sub-queue, and no others, wait in the core as [`UniqueItem`]s. Their keys are in the table.
//! 2. A key enters the table in the hold of the GIL, or of the lock of `turn`, in which the item enters the core or is
//!    refused. So only an item whose equal waits is left out. The key leaves after the item: a put in between counts
//!    as made before the get.
//! 3. No Python code runs under the lock of the table, and no object is freed.

use crate::fork::{self, Renew};
use crate::sources::identity::{Identity, KnownItem};
use crate::{arguments, errors, python_calls};
use drainq_core::sources::identity_table::{EntryId, IdentityTable};
use drainq_core::sync::Mutex;
use pyo3::ffi::PyTypeObject;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

/// The class [`UniqueItem`], once there is a sub-queue without duplicates: a get compares each item's class with it.
static CLASS: AtomicPtr<PyTypeObject> = AtomicPtr::new(null_mut());

type Table = Mutex<IdentityTable<KnownItem>>;

impl Renew for Table {
    fn renew_in_child(&self, _py: Python<'_>) {
        std::mem::forget(std::mem::take(&mut *self.lock()));
    }
}

/// The keys of the items that wait, and the function that makes a key.
pub struct Unique {
    key: Option<Py<PyAny>>,
    table: Arc<Table>,
    /// A list that stays empty. A put uses it as a lock, with `objects::alone_with`.
    pub turn: Py<PyList>,
}

/// An item that waits in a sub-queue without duplicates.
#[pyclass(frozen)]
pub struct UniqueItem {
    item: Py<PyAny>,
    entry: AtomicU32,
    table: Arc<Table>,
}

/// An item on its way into a sub-queue without duplicates.
pub struct Candidate {
    identity: Identity,
    pub item: Py<UniqueItem>,
}

impl Unique {
    /// Reads the argument `unique`: False, True, or a function that makes a key.
    pub fn new(unique: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let key = match unique.cast::<PyBool>() {
            Ok(flag) if !flag.is_true() => return Ok(None),
            Ok(_) => None,
            Err(_) if unique.is_callable() => {
                python_calls::check_callable("unique", unique, "item")?;
                Some(unique.clone().unbind())
            }
            Err(_) => return Err(arguments::refused("unique", "a bool or a function of an item", unique)),
        };
        CLASS.store(unique.py().get_type::<UniqueItem>().as_type_ptr(), Ordering::Relaxed);
        let table = Arc::<Table>::default();
        fork::register(Arc::downgrade(&table) as Weak<dyn Renew>);
        Ok(Some(Self { key, table, turn: PyList::empty(unique.py()).unbind() }))
    }

    /// Makes the key of an item, by its owner's code.
    pub fn candidate(&self, item: &Bound<'_, PyAny>) -> PyResult<Candidate> {
        let identity = Identity::of(item, self.key.as_ref())?;
        let (entry, table) = (AtomicU32::new(0), self.table.clone());
        let item = Py::new(item.py(), UniqueItem { item: item.clone().unbind(), entry, table })?;
        Ok(Candidate { identity, item })
    }

    /// Adds a candidate to the waiting ones; false if an equal one waits.
    pub fn enter(&self, py: Python<'_>, candidate: &mut Candidate) -> PyResult<bool> {
        let identity = &mut candidate.identity;
        let (mut table, found) = identity.locate(py, &self.table, |table| table)?;
        if found.is_some() {
            return Ok(false);
        }
        if !table.reserve() {
            drop(table);
            return Err(errors::no_memory(py));
        }
        let entry = table.insert(identity.hash(), KnownItem { key: identity.key(py), item: None });
        candidate.item.get().entry.store(entry.0, Ordering::Relaxed);
        Ok(true)
    }

    /// Shows the keys to the garbage collector.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.key)?;
        self.table.lock().known().try_for_each(|entry| visit.call(&entry.key))
    }
}

impl UniqueItem {
    /// Takes the key out of the table.
    pub fn leave(&self) {
        let entry = self.table.lock().forget(EntryId(self.entry.load(Ordering::Relaxed)));
        drop(entry);
    }
}

#[pymethods]
impl UniqueItem {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.item)
    }
}

/// Returns an item that has left its sub-queue, as it was put.
#[inline]
pub fn left(py: Python<'_>, item: Py<PyAny>) -> Py<PyAny> {
    match as_unique(item.bind(py)) {
        None => item,
        Some(unique) => {
            unique.leave();
            unique.item.clone_ref(py)
        }
    }
}

/// Returns an item that stays in its sub-queue, as it was put.
pub fn shown<'a, 'py>(item: &'a Bound<'py, PyAny>) -> &'a Bound<'py, PyAny> {
    as_unique(item).map_or(item, |unique| unique.item.bind(item.py()))
}

#[inline]
fn as_unique<'a>(item: &'a Bound<'_, PyAny>) -> Option<&'a UniqueItem> {
    if item.get_type_ptr() != CLASS.load(Ordering::Relaxed) {
        return None;
    }
    item.cast_exact::<UniqueItem>().ok().map(Bound::get)
}
