//! From a Python object with Arrow's PyCapsule interface to structs that are ours to release.

use super::c_data::{ArrowArray, ArrowArrayStream, ArrowSchema, Struct};
use crate::{errors, gil};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use std::ffi::CStr;
use std::mem;

/// Arrays of one type: a chunked array's or a table's chunks, or the one array that there is.
pub struct Imported {
    /// The type.
    pub schema: ArrowSchema,
    /// The arrays.
    pub arrays: Vec<ArrowArray>,
}

/// Whether an object has the interface.
pub fn has_arrow(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(object.hasattr("__arrow_c_array__")? || object.hasattr("__arrow_c_stream__")?)
}

/// Returns the arrays of an object with `__arrow_c_array__` or `__arrow_c_stream__`; `name` is that of the argument.
pub fn arrays_of(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Imported> {
    if object.hasattr("__arrow_c_array__")? {
        let capsules = gil::call_method(object, "__arrow_c_array__", [])?;
        let Ok((schema, array)) = capsules
            .cast::<PyTuple>()
            .map_err(PyErr::from)
            .and_then(|pair| pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>())
        else {
            return Err(broken(name, object, "__arrow_c_array__ returned no pair of capsules")?);
        };
        return Ok(Imported { schema: taken(&schema)?, arrays: vec![taken(&array)?] });
    }
    if object.hasattr("__arrow_c_stream__")? {
        let capsule = gil::call_method(object, "__arrow_c_stream__", [])?;
        return chunks(name, object, taken(&capsule)?);
    }
    Err(errors::bad_type(format!(
        "{name} must have Arrow's PyCapsule interface (__arrow_c_array__ or __arrow_c_stream__), as the arrays and tables \
         of pyarrow, polars, pandas and duckdb have, got {}",
        errors::shown(object)?
    )))
}

/// Takes the struct out of a capsule, which is left released.
fn taken<T: Struct>(capsule: &Bound<'_, PyAny>) -> PyResult<T> {
    let Ok(capsule) = capsule.cast::<PyCapsule>() else {
        return Err(errors::bad_type(format!("an Arrow capsule was expected, got {}", errors::shown(capsule)?)));
    };
    let pointer = capsule.pointer_checked(Some(T::CAPSULE))?.cast::<T>();
    // SAFETY: the name says that the capsule holds such a struct, the GIL keeps other threads from it, and rule 1 is
    // kept by leaving an empty struct in its place, which is not dropped here.
    let content = unsafe { mem::replace(&mut *pointer.as_ptr(), T::empty()) };
    if content.is_released() {
        return Err(errors::bad_value("the Arrow capsule was used before: ask its object for a new one"));
    }
    Ok(content)
}

fn chunks(name: &str, object: &Bound<'_, PyAny>, mut stream: ArrowArrayStream) -> PyResult<Imported> {
    let (Some(get_schema), Some(get_next)) = (stream.get_schema, stream.get_next) else {
        return Err(broken(name, object, "the stream lacks get_schema or get_next")?);
    };
    let mut schema = ArrowSchema::empty();
    // SAFETY: the stream was not released, and the schema is an empty struct to write to. The producer may run Python
    // code: the GIL is held.
    if unsafe { get_schema(&mut stream, &mut schema) } != 0 {
        return Err(failed(name, &mut stream));
    }
    let mut arrays = Vec::new();
    loop {
        let mut array = ArrowArray::empty();
        // SAFETY: as above; a released array says that the stream has ended.
        if unsafe { get_next(&mut stream, &mut array) } != 0 {
            return Err(failed(name, &mut stream));
        }
        if array.is_released() {
            return Ok(Imported { schema, arrays });
        }
        arrays.push(array);
    }
}

/// Returns what the producer says of its last call.
fn failed(name: &str, stream: &mut ArrowArrayStream) -> PyErr {
    let text = stream.get_last_error.and_then(|get_last_error| {
        // SAFETY: the stream was not released; the text, if there is one, is valid until its next call.
        let text = unsafe { get_last_error(stream) };
        // SAFETY: as above.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    });
    errors::bad_state(format!("{name}: its Arrow stream failed: {}", text.as_deref().unwrap_or("no reason given")))
}

fn broken(name: &str, object: &Bound<'_, PyAny>, what: &str) -> PyResult<PyErr> {
    Ok(errors::bad_type(format!("{name}: {what}: {}", errors::shown(object)?)))
}
