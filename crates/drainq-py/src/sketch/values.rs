//! The sources of a sketch's values: Arrow arrays, buffers of floats, and any iterable.
//!
//! `drainq.columns.arrow_buffers` converts an Arrow array to a buffer of floats.
//! A buffer's bytes are copied in pieces with the GIL held, because its owner may write to it as soon as
//! the GIL is released. The arithmetic, which takes longer, runs on the copy without the GIL.

use crate::core_errors;
use crate::{errors, gil};
use drainq_core::sketch::{DDSketch, SketchRefusal};
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PySlice};

/// Values of a buffer that are copied at once.
const PIECE: usize = 1 << 16;

/// Converts an object to a number; `name` is the argument's name.
pub fn number(name: &str, object: &Bound<'_, PyAny>) -> PyResult<f64> {
    match object.extract::<f64>() {
        Err(error) if error.is_instance_of::<PyTypeError>(object.py()) => {
            Err(errors::bad_type(format!("{name} must be a number, got {}", errors::shown(object))))
        }
        answer => answer,
    }
}

/// Adds values to an empty sketch; returns the sketch.
pub fn sketch_of(mut sketch: DDSketch, values: &Bound<'_, PyAny>) -> PyResult<DDSketch> {
    let values = &of_arrow(values)?;
    if let Some((view, format)) = floats(values)? {
        return of_buffer(sketch, &view, format);
    }
    for item in values.try_iter()? {
        let item = item?;
        let value = number("each of values", &item);
        sketch.add(value?).map_err(core_errors::of_sketch)?;
    }
    Ok(sketch)
}

/// Returns the float64 values of an Arrow array as a buffer, and any other object as it is.
fn of_arrow<'py>(values: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if !values.hasattr("__arrow_c_array__")? && !values.hasattr("__arrow_c_stream__")? {
        return Ok(values.clone());
    }
    let numbers_of = values.py().import("drainq.columns.arrow_buffers")?.getattr("numbers_of")?;
    gil::call(&numbers_of, [values])
}

/// The float type of a buffer.
#[derive(Clone, Copy)]
enum Format {
    Double,
    Single,
}

/// Returns a view of the object's buffer, if it has one of floats.
fn floats<'py>(values: &Bound<'py, PyAny>) -> PyResult<Option<(Bound<'py, PyAny>, Format)>> {
    let py = values.py();
    let view = match gil::call(py.get_type::<PyMemoryView>().as_any(), [values]) {
        Ok(view) => view,
        // The object has no buffer, or the buffer cannot describe its values. It may still have an iterator.
        Err(error) if error.is_instance_of::<PyException>(py) => return Ok(None),
        Err(error) => return Err(error),
    };
    let format = match view.getattr("format")?.extract::<String>()?.as_str() {
        "d" => Format::Double,
        "f" => Format::Single,
        _ => return Ok(None),
    };
    let has_rows = view.getattr("ndim")?.extract::<usize>()? > 0;
    // Pieces are cut from the first dimension. A NumPy scalar has no dimension, and is copied whole.
    let view = if has_rows { view } else { view.call_method0("tobytes")? };
    Ok(Some((view, format)))
}

fn of_buffer(mut sketch: DDSketch, view: &Bound<'_, PyAny>, format: Format) -> PyResult<DDSketch> {
    let py = view.py();
    if let Ok(whole) = view.cast::<PyBytes>() {
        let bytes = whole.as_bytes();
        return gil::released(py, || added(sketch, bytes, format)).map_err(core_errors::of_sketch);
    }
    let length = view.len()?;
    for start in (0..length).step_by(PIECE) {
        // The class is called, because PyO3's `PySlice::new` leaks the numbers.
        let ends = [start, (start + PIECE).min(length)].map(|end| end.into_pyobject(py));
        let [start, end] = ends.map(|Ok(end)| end.into_any());
        let slice = gil::call(py.get_type::<PySlice>().as_any(), [&start, &end])?;
        let copied = view.get_item(slice)?.call_method0("tobytes")?;
        let bytes = copied.cast::<PyBytes>()?.as_bytes();
        sketch = gil::released(py, || added(sketch, bytes, format)).map_err(core_errors::of_sketch)?;
    }
    Ok(sketch)
}

fn added(mut sketch: DDSketch, bytes: &[u8], format: Format) -> Result<DDSketch, SketchRefusal> {
    match format {
        Format::Double => {
            for value in bytes.as_chunks().0 {
                sketch.add(f64::from_ne_bytes(*value))?;
            }
        }
        Format::Single => {
            for value in bytes.as_chunks().0 {
                sketch.add(f32::from_ne_bytes(*value).into())?;
            }
        }
    }
    Ok(sketch)
}
