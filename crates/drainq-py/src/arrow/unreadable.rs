//! What is said where a column cannot be read.

use super::view::Unreadable;
use crate::errors;
use pyo3::prelude::*;

/// Returns the exception; `name` is that of the argument.
pub fn refused(name: &str, unreadable: Unreadable) -> PyErr {
    match unreadable {
        Unreadable::Missing(column) => errors::bad_key(format!("{name} has no column {column:?}")),
        Unreadable::Twice(column) => errors::bad_value(format!("{name} has more than one column {column:?}")),
        Unreadable::Type(column, format) => errors::bad_type(format!(
            "column {column:?} has the Arrow type {format:?}, which is not read here: cast it to a whole number, a float, \
             a text, bytes, a date or a timestamp"
        )),
        Unreadable::NoBatch(format) => errors::bad_type(format!(
            "{name} must be a record batch or a table, got an array of the Arrow type {format:?}"
        )),
        Unreadable::Broken(what) => errors::bad_value(format!("{name} breaks Arrow's C data interface: {what}")),
    }
}
