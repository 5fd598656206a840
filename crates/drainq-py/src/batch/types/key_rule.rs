//! The rule for the type of an item: its class, or the value of the queue's dispatch key.
//!
//! An `operator.itemgetter` or `operator.attrgetter` of one name is not called: its work is done here, in a third of the
//! time, with the same result and errors. A tuple or a dict holds the name of its type, so the name is borrowed, which
//! halves its cost.
//!
//! Source: `itemgetter` and `attrgetter` of CPython's `operator` module: `item[key]` and `getattr(item, name)`. For
//! several names, or a name with a dot, the getter is called.

use crate::errors::ErrorClass;
use crate::gil;
use pyo3::PyTraverseError;
use pyo3::ffi;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString, PyTuple};

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
    /// That of [`gil::peek_or_set`].
    #[inline(always)]
    pub unsafe fn name_within<'a, 'py>(&self, item: &'a Bound<'py, PyAny>) -> Option<Option<Borrowed<'a, 'py, PyAny>>> {
        let Self::Item { key, index } = self else { return Some(None) };
        if let (Some(index), Ok(tuple)) = (*index, item.cast_exact::<PyTuple>()) {
            // SAFETY: the GIL is held, and the tuple is one; it keeps its item alive. Without such an item the answer
            // is null, with the exception set that the getter raises.
            let name = unsafe { ffi::PyTuple_GetItem(tuple.as_ptr(), index) };
            // SAFETY: as above.
            return unsafe { Borrowed::from_ptr_or_opt(item.py(), name) }.map(Some);
        }
        match item.cast_exact::<PyDict>() {
            // SAFETY: the caller's promise is the same.
            Ok(dict) => unsafe { gil::peek_or_set(dict, key.bind(item.py())) },
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
