//! Converts between Python's arguments and values and the core's.

use crate::errors;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// The number of known keys in the error for an unknown key.
const SHOWN_KEYS: usize = 20;

/// Makes the KeyError for an unknown key, which shows the known ones.
pub fn unknown_key(key: &Bound<'_, PyAny>, known: &Bound<'_, PyList>) -> PyErr {
    let shown: Vec<_> = known.iter().take(SHOWN_KEYS).map(|key| errors::shown(&key)).collect();
    let more = match known.len().saturating_sub(SHOWN_KEYS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (key, shown) = (errors::shown(key), shown.join(", "));
    errors::bad_key(format!("key must be that of a sub-queue, got {key}; there are [{shown}]{more}"))
}

/// Reads a weight in turns.
pub fn weight_in(weight: i64) -> PyResult<u32> {
    match u32::try_from(weight) {
        Ok(turns) if turns >= 1 => Ok(turns),
        _ => Err(errors::bad_value(format!("weight must be 1 to {} turns, got {weight}", u32::MAX))),
    }
}
