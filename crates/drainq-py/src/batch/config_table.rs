//! A configuration as a table: each setting is written once, with its documentation, type and default.
//!
//! `config_table!` makes of the table: the class with its documentation and a getter for each setting, the constructor
//! with keyword-only arguments, the list of names (for `replace` and pickling), and the visit of the garbage collector.
//! What is left to the file of the class is the check of all settings together, `check`.
//!
//! A line of the table:
//!
//! ```text
//! /// name: what it means.
//! name: type of the argument = default => type in which it is kept,
//! ```
//!
//! A default of more than one token stands in parentheses; `help()` shows it as `...`.

use super::size_policies::{PartitionPolicy, ThreadPolicy, count};
use crate::batch::buffer_strategy::BufferStrategy;
use crate::batch::partition_selector::{PartitionSelector, SelectorRule};
use crate::errors;
use drainq_core::batch as core;
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;

/// Makes the class of a configuration, as the header of this file says.
macro_rules! config_table {
    (
        $(#[doc = $head:literal])*
        pub struct $class:ident {
            $($(#[doc = $doc:literal])* $name:ident: $given:ty = $default:tt => $kept:ty,)*
        }
        $(#[doc = $tail:literal])*
        end
    ) => {
        $(#[doc = $head])*
        $($(#[doc = $doc])*)*
        $(#[doc = $tail])*
        #[pyclass(module = "drainq", frozen, get_all)]
        pub struct $class {
            $(pub(super) $name: $kept,)*
        }

        #[pymethods]
        impl $class {
            #[new]
            #[pyo3(signature = (*, $($name = $default),*))]
            #[allow(clippy::too_many_arguments)]
            fn new(py: Python<'_>, $(#[pyo3(from_py_with = config_arguments::$name)] $name: $given),*) -> PyResult<Self> {
                let config = Self { $($name: Argument::<$kept>::keep($name, py, stringify!($name))?,)* };
                config.check(py)?;
                Ok(config)
            }

            fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
                $(Kept::visit(&self.$name, &visit)?;)*
                Ok(())
            }
        }

        impl $class {
            /// The names of all settings, as the constructor takes them.
            const NAMES: &[&str] = &[$(stringify!($name)),*];
        }
    };
}
pub(super) use config_table;

/// An argument that becomes a kept value, or is refused with the name of its setting.
pub(super) trait Argument<T> {
    fn keep(self, py: Python<'_>, name: &str) -> PyResult<T>;
}

impl<T> Argument<T> for T {
    fn keep(self, _py: Python<'_>, _name: &str) -> PyResult<T> {
        Ok(self)
    }
}

/// A number of items; a negative one is refused.
impl Argument<usize> for i64 {
    fn keep(self, _py: Python<'_>, name: &str) -> PyResult<usize> {
        count(name, self)
    }
}

/// A number of items, or no bound.
impl Argument<Option<usize>> for Option<i64> {
    fn keep(self, _py: Python<'_>, name: &str) -> PyResult<Option<usize>> {
        self.map(|given| count(name, given)).transpose()
    }
}

/// None is one partition.
impl Argument<PartitionPolicy> for Option<PartitionPolicy> {
    fn keep(self, _py: Python<'_>, _name: &str) -> PyResult<PartitionPolicy> {
        match self {
            Some(policy) => Ok(policy),
            None => Ok(PartitionPolicy(core::PartitionPolicy::fixed(1).map_err(errors::bad_value)?)),
        }
    }
}

/// None is the selector by type.
impl Argument<Py<PyAny>> for Option<Py<PyAny>> {
    fn keep(self, py: Python<'_>, _name: &str) -> PyResult<Py<PyAny>> {
        match self {
            Some(selector) => Ok(selector),
            None => Ok(Py::new(py, PartitionSelector(SelectorRule::TypeHash))?.into_any()),
        }
    }
}

/// A kept value, as the garbage collector sees it.
pub(super) trait Kept {
    fn visit(&self, _visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        Ok(())
    }
}

impl Kept for usize {}
impl Kept for Option<usize> {}
impl Kept for f64 {}
impl Kept for Option<f64> {}
impl Kept for BufferStrategy {}
impl Kept for PartitionPolicy {}
impl Kept for Option<ThreadPolicy> {}
impl Kept for Option<(String, ThreadPolicy)> {}

impl Kept for Py<PyAny> {
    fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(self)
    }
}

impl Kept for Option<Py<PyAny>> {
    fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(self)
    }
}
