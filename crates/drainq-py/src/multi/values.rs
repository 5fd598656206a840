//! Converts between Python's arguments and values and the core's.

use crate::errors;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// The number of known keys in the error for an unknown key.
const SHOWN_KEYS: usize = 20;

/// The core's number for no capacity.
const UNBOUNDED: usize = usize::MAX;

/// Reads a capacity in items; None is unbounded.
pub fn capacity_in(capacity: Option<i64>) -> PyResult<usize> {
    match capacity {
        None => Ok(UNBOUNDED),
        Some(items) if items < 1 => {
            Err(errors::bad_value(format!("capacity must be at least 1 item, or None for no limit, got {items}")))
        }
        Some(items) => Ok(usize::try_from(items).unwrap_or(UNBOUNDED)),
    }
}

/// Returns a capacity as Python shows it: the inverse of [`capacity_in`].
pub fn capacity_out(capacity: usize) -> Option<usize> {
    (capacity != UNBOUNDED).then_some(capacity)
}

/// Makes the KeyError for an unknown key, which shows the known ones.
pub fn unknown_key(key: &Bound<'_, PyAny>, known: &Bound<'_, PyList>) -> PyErr {
    let texts = || {
        let shown = PyList::new(key.py(), known.iter().take(SHOWN_KEYS))?;
        Ok::<_, PyErr>((errors::shown(key)?, errors::shown(shown.as_any())?))
    };
    match texts() {
        Ok((key, shown)) => {
            let more = match known.len().saturating_sub(SHOWN_KEYS) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            errors::bad_key(format!("key must be that of a sub-queue, got {key}; there are {shown}{more}"))
        }
        Err(error) => error,
    }
}

/// Reads a weight in turns.
pub fn weight_in(weight: i64) -> PyResult<u32> {
    match u32::try_from(weight) {
        Ok(turns) if turns >= 1 => Ok(turns),
        _ => Err(errors::bad_value(format!("weight must be 1 to {} turns, got {weight}", u32::MAX))),
    }
}

/// Reads how many items a bulk get takes, at most and at least. An `n` of 0 or less takes none.
pub fn amounts_in(n: i64, min_items: i64) -> PyResult<(usize, usize)> {
    let most = usize::try_from(n).unwrap_or(0);
    match usize::try_from(min_items) {
        Ok(least) if least <= most.max(1) => Ok((most, least.min(most))),
        _ => Err(errors::bad_value(format!("min_items must be 0 to n ({n}) items, got {min_items}"))),
    }
}
