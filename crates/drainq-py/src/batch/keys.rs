//! From an object to the key of its type, without a lock and without a dictionary.
//!
//! # Invariants
//! 1. A type in the map is kept alive by `known`, so its address means this type for ever.

use super::addresses::{AddressMap, Found};
use super::item::{MAX_KEYS, leaves_room_for_a_key};
use crate::errors;
use drainq_core::batch::Key;
use parking_lot::Mutex;
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use std::ptr;

/// What decides an item's type.
pub enum KeyRule {
    /// Its exact type.
    Type,
    /// What this callable says of it.
    Callable(Py<PyAny>),
}

/// The keys of one queue: types, or the values of its dispatch key.
pub struct Keys {
    rule: KeyRule,
    types: AddressMap,
    /// For other dispatch keys than types.
    others: Py<PyDict>,
    /// The dispatch keys by number.
    known: Mutex<Vec<Py<PyAny>>>,
}

impl Keys {
    /// No keys yet.
    pub fn new(py: Python<'_>, dispatch_key: Option<Py<PyAny>>) -> Self {
        Self {
            rule: dispatch_key.map_or(KeyRule::Type, KeyRule::Callable),
            types: AddressMap::new(),
            others: PyDict::new(py).unbind(),
            known: Mutex::new(Vec::new()),
        }
    }

    /// The key of the type at this address, if items are told apart by their types and this
    /// one was met before.
    #[inline]
    pub fn of_type(&self, address: usize) -> Option<Key> {
        match self.rule {
            KeyRule::Type => self.types.find(address).map(Found::key),
            KeyRule::Callable(_) => None,
        }
    }

    /// Whether an item's type is all that its key depends on.
    pub fn are_types(&self) -> bool {
        matches!(self.rule, KeyRule::Type)
    }

    /// The key of an item's type, if it was met before.
    #[inline]
    pub fn of_item(&self, item: &Bound<'_, PyAny>) -> PyResult<Result<Key, Py<PyAny>>> {
        match &self.rule {
            KeyRule::Type => {
                let class = item.get_type_ptr();
                Ok(self.types.find(class.addr()).map(Found::key).ok_or_else(|| item.get_type().into_any().unbind()))
            }
            KeyRule::Callable(rule) => {
                let name = rule.bind(item.py()).call1((item,))?;
                Ok(self.find(&name)?.ok_or_else(|| name.unbind()))
            }
        }
    }

    /// Checks that `name` can be a dispatch key of this queue.
    pub fn check(&self, name: &Bound<'_, PyAny>) -> PyResult<()> {
        if matches!(self.rule, KeyRule::Type) && !name.is_instance_of::<PyType>() {
            return Err(errors::bad_type(format!(
                "items are told apart by their type here, so a handler is added for a class; got {}. \
                 To tell them apart by something else give the queue a dispatch_key",
                name.repr()?
            )));
        }
        name.hash().map(drop)
    }

    /// The number of a dispatch key, if it has one.
    pub fn find(&self, name: &Bound<'_, PyAny>) -> PyResult<Option<Key>> {
        if matches!(self.rule, KeyRule::Type) {
            return Ok(self.types.find(name.as_ptr().addr()).map(Found::key));
        }
        self.others.bind(name.py()).get_item(name)?.map(|key| key.extract()).transpose()
    }

    /// Gives a dispatch key that has no number the next one; `number` says which it must be.
    pub fn add(&self, name: &Bound<'_, PyAny>, number: impl FnOnce() -> Key) -> PyResult<Key> {
        let mut known = self.known.lock();
        if known.len() >= MAX_KEYS {
            return Err(errors::bad_value(format!(
                "a queue tells at most {MAX_KEYS} types apart, and {} would be one more; \
                 use a coarser dispatch_key",
                name.repr()?
            )));
        }
        if self.are_types() && !leaves_room_for_a_key(name.as_ptr().addr()) {
            return Err(errors::internal(format!(
                "the type {} lies above the 48 address bits that drainq supports",
                name.repr()?
            )));
        }
        let key = number();
        assert_eq!(key as usize, known.len(), "keys and routes are made together");
        known.push(name.clone().unbind());
        if matches!(self.rule, KeyRule::Type) {
            self.types.add(name.as_ptr().addr(), key, ptr::null_mut());
        } else {
            self.others.bind(name.py()).set_item(name, key)?;
        }
        Ok(key)
    }

    /// The dispatch key with this number.
    pub fn name(&self, py: Python<'_>, key: Key) -> Py<PyAny> {
        self.known.lock()[key as usize].clone_ref(py)
    }

    /// All dispatch keys by number.
    pub fn names(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        self.known.lock().iter().map(|name| name.clone_ref(py)).collect()
    }

    /// Shows the garbage collector what is held.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let KeyRule::Callable(rule) = &self.rule {
            visit.call(rule)?;
        }
        visit.call(&self.others)?;
        match self.known.try_lock() {
            Some(known) => known.iter().try_for_each(|name| visit.call(name)),
            None => Ok(()),
        }
    }
}
