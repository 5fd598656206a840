//! Maps an object to the key of its type, a number that is found without a lock.
//!
//! The *name* of an item's type is its class, or its dispatch key. Equal names are one type. The *first* of equal
//! names, whichever came first, stands for all of them by its address. A class is its own first, and is not hashed.
//!
//! An `operator.itemgetter` or `operator.attrgetter` of one name is not called: this file does its work in a third of
//! the time, with the same result and errors. An item that is a tuple or a dict holds the name of its type, so the name
//! is borrowed, which halves the cost of reading it.
//!
//! Source: `itemgetter` and `attrgetter` of CPython's `operator` module: `item[key]` and `getattr(item, name)`. For
//! several names, or a name with a dot, the getter is called.
//!
//! # Invariants
//! 1. An object in `numbers` is kept alive by `names`, so its address means this type for ever.
//! 2. Equal names have one first, because `dict.setdefault` looks up and inserts in one step. Between the last
//!    comparison and the insertion no Python code runs, and the GIL, or the dict's own lock, keeps other threads out.
//!    A hash or a comparison that gives up the GIL only delays that step.
//! 3. The number of a first is looked up and added in one hold of `names`: each first gets one number.
//! 4. No Python code runs while `names` is locked.

use super::address_map::{AddressMap, Found};
use super::item::{MAX_KEYS, leaves_room_for_a_key};
use crate::errors::ErrorClass;
use crate::objects::{self, Peeked};
use crate::{arguments, errors, gil};
use drainq_core::batch::Key;
use drainq_core::sync::Mutex;
use pyo3::PyTraverseError;
use pyo3::ffi;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString, PyTuple, PyType};
use std::ptr;

static ITEM_GETTER: ErrorClass = ErrorClass::of("operator", "itemgetter");
static ATTRIBUTE_GETTER: ErrorClass = ErrorClass::of("operator", "attrgetter");

/// The rule for an item's type.
pub enum KeyRule {
    /// Its exact class.
    Class,
    /// The result of this callable for the item.
    Callable(Py<PyAny>),
    /// The value in the item at this key.
    Item {
        /// The key.
        key: Py<PyAny>,
        /// The key as an index from the start of a tuple, if it is one.
        index: Option<ffi::Py_ssize_t>,
    },
    /// The item's attribute with this name.
    Attribute(Py<PyAny>),
}

impl KeyRule {
    /// Reads a dispatch key; without one the class decides.
    pub fn of(py: Python<'_>, dispatch_key: Option<Py<PyAny>>) -> Self {
        let Some(callable) = dispatch_key else { return Self::Class };
        match Self::getter(callable.bind(py)) {
            Ok(Some(getter)) => getter,
            // A getter that cannot be read is called like any other callable.
            _ => Self::Callable(callable),
        }
    }

    fn getter(callable: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let (py, class) = (callable.py(), callable.get_type());
        let is_item = class.is(ITEM_GETTER.class(py)?);
        if !is_item && !class.is(ATTRIBUTE_GETTER.class(py)?) {
            return Ok(None);
        }
        // As pickle does: the class, and its constructor's arguments.
        let parts = gil::call_method(callable, "__reduce__", [])?.cast_into::<PyTuple>()?;
        let names = parts.get_item(1)?.cast_into::<PyTuple>()?;
        if names.len() != 1 {
            return Ok(None);
        }
        let name = names.get_item(0)?;
        if is_item {
            let index = name.cast_exact::<PyInt>().ok().and_then(|index| index.extract().ok());
            return Ok(Some(Self::Item { key: name.unbind(), index: index.filter(|index| *index >= 0) }));
        }
        let plain = name.cast_exact::<PyString>().is_ok_and(|name| name.to_str().is_ok_and(|text| !text.contains('.')));
        Ok(plain.then(|| Self::Attribute(name.unbind())))
    }

    /// Returns the name of an item's type; `None` if there was an exception, which is left set.
    #[inline]
    pub fn name_of<'py>(&self, item: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        // SAFETY: a reference is taken at once.
        if let Some(name) = unsafe { self.name_within(item) }? {
            return Some(name.to_owned());
        }
        match self {
            Self::Class => Some(item.get_type().into_any()),
            Self::Callable(callable) => gil::call_or_set(callable.bind(item.py()), [item]),
            Self::Item { key, .. } => gil::item_or_set(item, key.bind(item.py())),
            Self::Attribute(name) => gil::attribute_or_set(item, name.bind(item.py())),
        }
    }

    /// Returns the borrowed name of an item's type if the item is a tuple or a dict that holds the name, and else
    /// `Some(None)`. Returns `None` after an exception, which stays set.
    ///
    /// # Safety
    ///
    /// That of [`objects::peek_or_set`].
    #[inline(always)]
    pub unsafe fn name_within<'a, 'py>(&self, item: &'a Bound<'py, PyAny>) -> Option<Option<Peeked<'a, 'py>>> {
        let Self::Item { key, index } = self else { return Some(None) };
        if let (Some(index), Ok(tuple)) = (*index, item.cast_exact::<PyTuple>()) {
            // SAFETY: the GIL is held, and the tuple is one; it keeps its item alive. Without such an item the answer
            // is null, with the exception set that the getter raises.
            let name = unsafe { ffi::PyTuple_GetItem(tuple.as_ptr(), index) };
            // SAFETY: as above.
            return unsafe { Borrowed::from_ptr_or_opt(item.py(), name) }.map(|name| Some(objects::peeked(name)));
        }
        match item.cast_exact::<PyDict>() {
            // SAFETY: the caller's promise is the same.
            Ok(dict) => unsafe { objects::peek_or_set(dict, key.bind(item.py())) },
            Err(_) => Some(None),
        }
    }

    /// Shows the garbage collector the held objects.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::Class => Ok(()),
            Self::Callable(held) | Self::Item { key: held, .. } | Self::Attribute(held) => visit.call(held),
        }
    }
}

/// The keys of one queue: types, or the values of its dispatch key.
pub struct Keys {
    rule: KeyRule,
    /// From the address of a first to its number.
    numbers: AddressMap,
    /// For each name the first of its equals. Empty if names are classes.
    firsts: Py<PyDict>,
    /// The firsts by number.
    names: Mutex<Vec<Py<PyAny>>>,
}

impl Keys {
    /// Makes an empty list of keys.
    pub fn new(py: Python<'_>, dispatch_key: Option<Py<PyAny>>) -> Self {
        Self {
            rule: KeyRule::of(py, dispatch_key),
            numbers: AddressMap::new(),
            firsts: PyDict::new(py).unbind(),
            names: Mutex::new(Vec::new()),
        }
    }

    /// Whether an item's key depends only on its class.
    pub fn are_types(&self) -> bool {
        matches!(self.rule, KeyRule::Class)
    }

    /// Returns the name of an item's type. The item may have another class afterwards, so a caller asks once for an
    /// item and uses this answer for everything.
    #[inline]
    pub fn name_of<'py>(&self, item: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.rule.name_of(item).ok_or_else(|| PyErr::fetch(item.py()))
    }

    /// Returns the name of an item's type as [`Self::name_of`] does; `None` if there was an exception, which is left
    /// set.
    #[inline]
    pub fn name_or_set<'py>(&self, item: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        self.rule.name_of(item)
    }

    /// Returns the name of an item's type if the item holds it, as [`KeyRule::name_within`] does.
    ///
    /// # Safety
    ///
    /// That of [`objects::peek_or_set`].
    #[inline(always)]
    pub unsafe fn name_within<'a, 'py>(&self, item: &'a Bound<'py, PyAny>) -> Option<Option<Peeked<'a, 'py>>> {
        // SAFETY: the caller promises what is asked for.
        unsafe { self.rule.name_within(item) }
    }

    /// Checks that `name` can be the name of a type in this queue.
    pub fn check(&self, name: &Bound<'_, PyAny>) -> PyResult<()> {
        match self.rule {
            KeyRule::Class if !name.is_instance_of::<PyType>() => Err(errors::bad_type(format!(
                "type must be a class, because this queue dispatches items by their class, got {}; \
                 a queue with a dispatch_key has other types",
                errors::shown(name)
            ))),
            KeyRule::Class => Ok(()),
            _ => arguments::hashable("type", name),
        }
    }

    /// Returns the number of the name at this address, if it has one. `None` may be wrong while another thread adds it.
    #[inline]
    pub fn number(&self, address: usize) -> Option<Key> {
        self.numbers.find(address).map(Found::key)
    }

    /// Returns the address of the first of a name's equals, if there is one. A name that is a first is neither hashed
    /// nor compared.
    pub fn address(&self, name: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        let address = name.as_ptr().addr();
        if self.are_types() || self.number(address).is_some() {
            return Ok(Some(address));
        }
        let first = self.firsts.bind(name.py()).get_item(name)?;
        Ok(first.map(|first| first.as_ptr().addr()))
    }

    /// Does what [`Self::address`] does, for a string or a number. `None`: a comparison raised an exception, which
    /// stays set.
    #[inline]
    pub fn address_of_plain(&self, name: &Bound<'_, PyAny>) -> Option<Option<usize>> {
        if !name.is_exact_instance_of::<PyString>() && !name.is_exact_instance_of::<PyInt>() {
            return Some(None);
        }
        // SAFETY: all that is used of the answer is its address, at once.
        let first = unsafe { objects::peek_or_set(self.firsts.bind(name.py()), name) }?;
        Some(first.map(|first| first.as_ptr().addr()))
    }

    /// Returns the number of a name, if it has one.
    pub fn find(&self, name: &Bound<'_, PyAny>) -> PyResult<Option<Key>> {
        let Some(address) = self.address(name)? else { return Ok(None) };
        let found = self.number(address);
        if found.is_some() {
            return Ok(found);
        }
        let _no_new_ones = self.names.lock();
        Ok(self.number(address))
    }

    /// Returns the first of the names that are equal to `name`: from now on `name`, if there was none.
    fn first<'py>(&self, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if self.are_types() {
            return Ok(name.clone());
        }
        gil::call(&self.firsts.bind(name.py()).getattr("setdefault")?, [name, name])
    }

    /// Returns the number of a name; a name without a number gets the next, which `number` returns.
    pub fn add(&self, name: &Bound<'_, PyAny>, number: impl FnOnce() -> Key) -> PyResult<Key> {
        if self.count() >= MAX_KEYS {
            return Err(too_many(name));
        }
        let first = self.first(name)?;
        let address = first.as_ptr().addr();
        if !leaves_room_for_a_key(address) {
            return Err(errors::internal(format!(
                "a type's name lies at {address:#x}, above the 48 address bits that drainq supports"
            )));
        }
        let mut names = self.names.lock();
        if let Some(key) = self.number(address) {
            return Ok(key);
        }
        if names.len() >= MAX_KEYS {
            drop(names);
            return Err(too_many(name));
        }
        let key = number();
        assert_eq!(key as usize, names.len(), "keys and routes are made together");
        names.push(first.unbind());
        self.numbers.add(address, key, ptr::null_mut());
        Ok(key)
    }

    /// Returns the name with this number.
    pub fn name(&self, py: Python<'_>, key: Key) -> Py<PyAny> {
        self.names.lock()[key as usize].clone_ref(py)
    }

    /// Returns all names by number.
    pub fn names(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        self.names.lock().iter().map(|name| name.clone_ref(py)).collect()
    }

    /// Returns how many names have a number.
    pub fn count(&self) -> usize {
        self.names.lock().len()
    }

    /// Shows the garbage collector the held objects.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.rule.traverse(visit)?;
        visit.call(&self.firsts)?;
        match self.names.try_lock() {
            Some(names) => names.iter().try_for_each(|name| visit.call(name)),
            None => Ok(()),
        }
    }
}

fn too_many(name: &Bound<'_, PyAny>) -> PyErr {
    errors::bad_value(format!(
        "a queue has at most {MAX_KEYS} types, and {} would be one more; use a coarser dispatch_key",
        errors::shown(name)
    ))
}
