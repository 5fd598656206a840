//! Arguments of the public methods: each parameter is read by the function of its own name.
//!
//! PyO3's own error for a wrong type names the type, but neither the parameter nor what to pass. The errors of these
//! functions name the parameter, tell what to pass, and show the value. A method uses a function with
//! `#[pyo3(from_py_with = arguments::timeout)]`. Its signature and defaults stay those of the Rust type.
//!
//! # Invariants
//! 1. A time is a number of seconds or a `datetime.timedelta`, everywhere.
//! 2. A whole number is an int, or an object with `__index__`, such as an integer of NumPy. A bool is no number.
//! 3. A value that is out of range is refused where the range is known. A number too large for the machine's integers is
//!    refused here.

use crate::{errors, gil};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDelta, PyFloat, PyInt, PyIterator, PyString};
use std::time::Duration;

/// Makes a reader for each parameter from its name and its kind. The name is in quotes if another reader has it already.
macro_rules! readers {
    (@name $reader:ident) => { stringify!($reader) };
    (@name $reader:ident $name:literal) => { $name };
    ($($reader:ident $(($name:literal))?: $kind:ident -> $kept:ty,)*) => {
        $(
            /// Reads the parameter of this name.
            pub fn $reader(value: &Bound<'_, PyAny>) -> PyResult<$kept> {
                $kind(readers!(@name $reader $($name)?), value)
            }
        )*
    };
}

readers! {
    name: text -> String,
    host: text -> String,
    in_flight: in_flight_word -> String,
    reason: text -> String,
    any_reason("reason"): text_or_none -> Option<String>,
    block: flag -> bool,
    enabled: flag -> bool,
    exist_ok: flag -> bool,
    immediate: flag -> bool,
    count: whole -> i64,
    min_items: whole -> i64,
    n: whole -> i64,
    priority: whole -> i64,
    turns("weight"): whole -> i64,
    capacity: whole_or_none -> Option<i64>,
    max_buckets: whole_or_none -> Option<i64>,
    scale: whole_or_none -> Option<i64>,
    q: number -> f64,
    relative_accuracy: number -> f64,
    weight: number -> f64,
    timeout: seconds_or_none -> Option<f64>,
    ttl: seconds_or_none -> Option<f64>,
}

/// Makes the TypeError of a parameter, with its name, the wanted type, and the value.
pub fn refused(name: &str, wanted: &str, value: &Bound<'_, PyAny>) -> PyErr {
    errors::bad_type(format!("{name} must be {wanted}, got {}", errors::shown(value)))
}

/// Reads a str.
pub fn text(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    text_as(name, "a str", value)
}

fn text_as(name: &str, wanted: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    // A str with a lone surrogate is no text; the error of its encoding reports that.
    if value.is_instance_of::<PyString>() { value.extract() } else { Err(refused(name, wanted, value)) }
}

fn in_flight_word(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    text_as(name, "'forget', 'ack' or 'ttl'", value)
}

fn text_or_none(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if value.is_none() { Ok(None) } else { text_as(name, "a str or None", value).map(Some) }
}

fn flag(name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value.extract().map_err(|_| refused(name, "True or False", value))
}

/// Reads a whole number.
#[pyfunction(name = "read_whole")]
pub fn whole(name: &str, value: &Bound<'_, PyAny>) -> PyResult<i64> {
    whole_as(name, "a whole number (int)", value)
}

/// Reads a whole number or None.
#[pyfunction(name = "read_whole_or_none")]
pub fn whole_or_none(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if value.is_none() { Ok(None) } else { whole_as(name, "a whole number (int) or None", value).map(Some) }
}

fn whole_as(name: &str, wanted: &str, value: &Bound<'_, PyAny>) -> PyResult<i64> {
    if value.is_instance_of::<PyBool>() {
        return Err(refused(name, wanted, value));
    }
    value.extract().map_err(|error| not_read(name, wanted, "of at most 64 bits", value, error))
}

/// Reads a number.
#[pyfunction(name = "read_number")]
pub fn number(name: &str, value: &Bound<'_, PyAny>) -> PyResult<f64> {
    number_as(name, "a number", value)
}

/// Reads a length of time in seconds.
#[pyfunction]
pub fn read_seconds(name: &str, value: &Bound<'_, PyAny>) -> PyResult<f64> {
    let seconds = seconds_as(name, "a number of seconds, or a datetime.timedelta", value)?;
    duration(name, seconds).map(|_| seconds)
}

fn seconds_or_none(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    const WANTED: &str = "a number of seconds, or a datetime.timedelta, or None (as long as it takes)";
    if value.is_none() { Ok(None) } else { seconds_as(name, WANTED, value).map(Some) }
}

fn seconds_as(name: &str, wanted: &str, value: &Bound<'_, PyAny>) -> PyResult<f64> {
    if !value.is_instance_of::<PyFloat>() && !value.is_instance_of::<PyInt>() && value.is_instance_of::<PyDelta>() {
        return gil::call_method(value, "total_seconds", [])?.extract();
    }
    number_as(name, wanted, value)
}

fn number_as(name: &str, wanted: &str, value: &Bound<'_, PyAny>) -> PyResult<f64> {
    if value.is_instance_of::<PyBool>() {
        return Err(refused(name, wanted, value));
    }
    value.extract().map_err(|error| not_read(name, wanted, "that a float can hold", value, error))
}

/// Makes the error for a value that is no number, or is too large.
fn not_read(name: &str, wanted: &str, largest: &str, value: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    if error.is_instance_of::<PyOverflowError>(value.py()) {
        return errors::bad_value(format!("{name} must be a number {largest}, got {}", errors::shown(value)));
    }
    refused(name, wanted, value)
}

/// Converts the seconds of the parameter `name` to a duration.
pub fn duration(name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        errors::bad_value(if seconds > 0.0 {
            format!("{name} must be at most {:e} seconds, got {seconds:e}", u64::MAX as f64)
        } else {
            format!("{name} must be a number of seconds >= 0, got {seconds:?}")
        })
    })
}

/// Refuses an empty name, and one with a NUL character, which names of threads, metrics and databases cannot hold.
#[pyfunction]
pub fn check_name(what: &str, name: &str) -> PyResult<()> {
    if name.is_empty() {
        return Err(errors::bad_value(format!("{what} must not be empty, got '': it shows in logs and counters")));
    }
    if name.contains('\0') {
        let shown = name.replace('\0', "\\x00");
        return Err(errors::bad_value(format!("{what} must not contain a NUL character, got '{shown}'")));
    }
    Ok(())
}

/// Iterates over the parameter `items`. A str or bytes is refused: a caller who passes one hardly ever
/// means its characters as items, and a text that is an item belongs in a list.
pub fn items<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyIterator>> {
    const WANTED: &str = "an iterable of items, such as a list";
    let is_text = value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyBytes>()
        || value.is_instance_of::<PyByteArray>();
    if is_text {
        let wanted = format!("{WANTED}; put a single item into a list, as in [item]");
        return Err(refused("items", &wanted, value));
    }
    value.try_iter().map_err(|error| match error {
        error if error.is_instance_of::<PyTypeError>(value.py()) => refused("items", WANTED, value),
        error => error,
    })
}

/// Refuses a value that cannot be hashed. An exception of its own `__hash__` passes through.
pub fn hashable(name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match value.hash() {
        Err(error) if error.is_instance_of::<PyTypeError>(value.py()) => {
            Err(refused(name, "hashable, as a str, a number or a tuple of these is", value))
        }
        answer => answer.map(drop),
    }
}

/// The core's number for no capacity.
const UNBOUNDED: usize = usize::MAX;

/// Reads a capacity in items; None is unbounded.
pub fn capacity_in_items(capacity: Option<i64>) -> PyResult<usize> {
    match capacity {
        None => Ok(UNBOUNDED),
        Some(items) if items < 1 => {
            Err(errors::bad_value(format!("capacity must be at least 1 item, or None for no limit, got {items}")))
        }
        Some(items) => Ok(usize::try_from(items).unwrap_or(UNBOUNDED)),
    }
}

/// Returns a capacity as Python shows it: the inverse of [`capacity_in_items`].
pub fn capacity_out(capacity: usize) -> Option<usize> {
    (capacity != UNBOUNDED).then_some(capacity)
}

/// Reads how many items a bulk get takes, at most and at least. An `n` of 0 or less takes none.
pub fn amounts(n: i64, min_items: i64) -> PyResult<(usize, usize)> {
    let most = usize::try_from(n).unwrap_or(0);
    match usize::try_from(min_items) {
        Ok(least) if least <= most.max(1) => Ok((most, least.min(most))),
        _ => Err(errors::bad_value(format!("min_items must be 0 to n ({n}) items, got {min_items}"))),
    }
}
