//! Columns of sketches, over the buffers of Arrow arrays: makes them from lists of numbers, merges lists, and queries.
//!
//! A list lies between two int32 offsets; there is one more offset than lists. Empty bytes and NaN stand for nulls.
//! Offsets that do not fit their values raise a ValueError.

use super::to_bytes;
use crate::{core_errors, errors, gil};
use drainq_core::sketch::{DDSketch, SketchRefusal, bytes};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ops::Range;

/// Sketches as a column: the ends, and the bytes.
type Sketches<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// The reason why sketches could not be made.
enum ColumnRefusal {
    /// The sketch at this place could not be made.
    Sketch(usize, SketchRefusal),
    /// Offsets beyond the values.
    Ends,
    /// More bytes than int32 offsets can count.
    Size,
}

impl From<ColumnRefusal> for PyErr {
    fn from(refusal: ColumnRefusal) -> Self {
        match refusal {
            ColumnRefusal::Sketch(_, refusal @ SketchRefusal::Count) => core_errors::of_sketch(refusal),
            ColumnRefusal::Sketch(place, refusal) => errors::bad_value(format!("sketch {place}: {refusal}")),
            ColumnRefusal::Ends => errors::bad_value("the ends of a column do not lie in its values"),
            ColumnRefusal::Size => errors::overflow("the sketches of one result are more than 2 GiB: use max_groups"),
        }
    }
}

/// Makes a sketch of each list of float64 values; NaN is left out.
#[pyfunction]
pub fn sketch_lists<'py>(
    py: Python<'py>,
    ends: &Bound<'_, PyBytes>,
    values: &Bound<'_, PyBytes>,
    relative_accuracy: f64,
) -> PyResult<Sketches<'py>> {
    let empty = DDSketch::new(relative_accuracy, None).map_err(core_errors::of_sketch)?;
    let (ends, values) = (numbers(ends), values.as_bytes().as_chunks().0);
    let work = || {
        made(lists(ends), |to, place, list| {
            let mut sketch = empty.clone();
            let values = values.get(list).ok_or(ColumnRefusal::Ends)?.iter().map(|value| f64::from_ne_bytes(*value));
            for value in values.filter(|value| !value.is_nan()) {
                sketch.add(value).map_err(|refusal| ColumnRefusal::Sketch(place, refusal))?;
            }
            bytes::encode_into(to, &sketch);
            Ok(())
        })
    };
    Ok(for_python(py, gil::released(py, work)?))
}

/// Merges the sketches of each list, which are the texts between `text_ends`. A list of one sketch is copied unread.
#[pyfunction]
pub fn merge_sketches<'py>(
    py: Python<'py>,
    ends: &Bound<'_, PyBytes>,
    text_ends: &Bound<'_, PyBytes>,
    texts: &Bound<'_, PyBytes>,
    relative_accuracy: f64,
) -> PyResult<Sketches<'py>> {
    let empty = DDSketch::new(relative_accuracy, None).map_err(core_errors::of_sketch)?;
    let (ends, text_ends, texts) = (numbers(ends), numbers(text_ends), texts.as_bytes());
    let work = || {
        made(lists(ends), |to, _, list| {
            if list.len() == 1 {
                to.extend(text_at(text_ends, texts, list.start)?);
                return Ok(());
            }
            let mut merged = empty.clone();
            for place in list {
                if let Some(other) = sketch_at(text_ends, texts, place)? {
                    merged.merge(&other).map_err(|refusal| ColumnRefusal::Sketch(place, refusal))?;
                }
            }
            bytes::encode_into(to, &merged);
            Ok(())
        })
    };
    Ok(for_python(py, gil::released(py, work)?))
}

/// Checks that texts are sketches of an accuracy, which can be merged.
#[pyfunction]
pub fn check_sketches(
    py: Python<'_>,
    ends: &Bound<'_, PyBytes>,
    texts: &Bound<'_, PyBytes>,
    relative_accuracy: f64,
) -> PyResult<()> {
    let mut empty = DDSketch::new(relative_accuracy, None).map_err(core_errors::of_sketch)?;
    let (ends, texts) = (numbers(ends), texts.as_bytes());
    let work = move || {
        for place in 0..ends.len().saturating_sub(1) {
            match sketch_at(ends, texts, place)? {
                Some(other) if other.settings() != empty.settings() => {
                    empty.merge(&other).map_err(|refusal| ColumnRefusal::Sketch(place, refusal))?;
                }
                _ => {}
            }
        }
        Ok::<_, ColumnRefusal>(())
    };
    Ok(gil::released(py, work)?)
}

/// Computes percentiles of the sketches between `ends`; returns float64 values for each percent, NaN if there is none.
#[pyfunction]
pub fn sketch_percentiles<'py>(
    py: Python<'py>,
    ends: &Bound<'_, PyBytes>,
    texts: &Bound<'_, PyBytes>,
    percents: &Bound<'_, PyBytes>,
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let (ends, texts, percents) = (numbers(ends), texts.as_bytes(), percents.as_bytes());
    let work = || {
        let mut found = vec![Vec::new(); percents.len()];
        for place in 0..ends.len().saturating_sub(1) {
            let sketch = sketch_at(ends, texts, place)?;
            for (values, percent) in found.iter_mut().zip(percents) {
                values.push(sketch.as_ref().and_then(|sketch| sketch.percentile(*percent)).unwrap_or(f64::NAN));
            }
        }
        Ok::<_, ColumnRefusal>(found)
    };
    let found = gil::released(py, work)?;
    Ok(found.iter().map(|values| to_bytes(py, values, f64::to_ne_bytes)).collect())
}

/// Returns the int32 numbers of a buffer.
fn numbers<'a>(buffer: &'a Bound<'_, PyBytes>) -> &'a [[u8; 4]] {
    buffer.as_bytes().as_chunks().0
}

fn list(begin: [u8; 4], end: [u8; 4]) -> Range<usize> {
    let place = |end| usize::try_from(i32::from_ne_bytes(end)).unwrap_or(usize::MAX);
    place(begin)..place(end)
}

fn lists(ends: &[[u8; 4]]) -> impl Iterator<Item = Range<usize>> {
    ends.windows(2).map(|pair| list(pair[0], pair[1]))
}

fn text_at<'a>(ends: &[[u8; 4]], texts: &'a [u8], place: usize) -> Result<&'a [u8], ColumnRefusal> {
    let (Some(begin), Some(end)) = (ends.get(place), ends.get(place + 1)) else { return Err(ColumnRefusal::Ends) };
    texts.get(list(*begin, *end)).ok_or(ColumnRefusal::Ends)
}

/// Returns the sketch at a place, None if there is no byte.
fn sketch_at(ends: &[[u8; 4]], texts: &[u8], place: usize) -> Result<Option<DDSketch>, ColumnRefusal> {
    let text = text_at(ends, texts, place)?;
    if text.is_empty() {
        return Ok(None);
    }
    bytes::decode(text).map(Some).map_err(|refusal| ColumnRefusal::Sketch(place, refusal))
}

/// Makes the text of each list's sketch.
fn made(
    lists: impl Iterator<Item = Range<usize>>,
    append: impl Fn(&mut Vec<u8>, usize, Range<usize>) -> Result<(), ColumnRefusal>,
) -> Result<(Vec<i32>, Vec<u8>), ColumnRefusal> {
    let (mut ends, mut texts) = (vec![0], Vec::new());
    for (place, list) in lists.enumerate() {
        append(&mut texts, place, list)?;
        ends.push(i32::try_from(texts.len()).map_err(|_| ColumnRefusal::Size)?);
    }
    Ok((ends, texts))
}

fn for_python(py: Python<'_>, (ends, texts): (Vec<i32>, Vec<u8>)) -> Sketches<'_> {
    (to_bytes(py, &ends, i32::to_ne_bytes), PyBytes::new(py, &texts))
}
