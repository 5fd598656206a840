//! `percentiles`: columns of numbers out of a column of sketches.

use crate::arrow::batch::RecordBatch;
use crate::arrow::export::{Data, ExportedBatch, ExportedColumn};
use crate::arrow::unreadable::refused;
use crate::arrow::{import, view};
use crate::{errors, gil};
use drainq_core::columns::column::{self, Kind, Values};
use drainq_core::columns::validity_bitmap::ValidityBitmap;
use drainq_core::sketch::bytes;
use pyo3::prelude::*;
use std::sync::Arc;

/// Works out percentiles of many sketches, without the GIL.
///
/// A percentile is the smallest value that at least that many percent of a sketch's values do not exceed (the nearest
/// rank, in whole numbers), within the sketch's relative accuracy.
///
/// Args:
///     sketches: bytes of ``DDSketch``, as ``GroupBy`` gives them, in an object with Arrow's PyCapsule interface.
///     percents: whole numbers from 0 to 100, each once.
/// Returns:
///     A ``RecordBatch`` with a row for each sketch and a float64 column for each percent, named ``p50`` and so on; null
///     where the sketch is null or empty.
/// Raises:
///     TypeError: ``sketches`` is no Arrow array of bytes.
///     ValueError: a value is no sketch, or a percent is out of its range or comes twice.
///
/// Example:
///     >>> import pyarrow as pa
///     >>> from drainq.sketch import DDSketch
///     >>> from drainq.columns import percentiles
///     >>> sketch = DDSketch()
///     >>> sketch.add_many([1.0, 2.0, 4.0])
///     >>> pa.record_batch(percentiles(pa.array([sketch.to_bytes(), None]), [0, 100])).to_pylist()
///     [{'p0': 1.0, 'p100': 4.0}, {'p0': None, 'p100': None}]
#[pyfunction]
pub fn percentiles(sketches: &Bound<'_, PyAny>, percents: Vec<i64>) -> PyResult<RecordBatch> {
    let py = sketches.py();
    let mut wanted = Vec::with_capacity(percents.len());
    for percent in percents {
        let valid = u8::try_from(percent).ok().filter(|percent| *percent <= 100 && !wanted.contains(percent));
        wanted.push(valid.ok_or_else(|| {
            errors::bad_value(format!("percents must be whole numbers from 0 to 100, each once, got {percent}"))
        })?);
    }
    let imported = import::arrays_of("sketches", sketches)?;
    let columns = view::columns("sketches", &imported).map_err(|unreadable| refused("sketches", unreadable))?;
    for column in &columns {
        if column.kind.kind != Kind::Text {
            let got = column.kind.name();
            return Err(errors::bad_type(format!("sketches must be bytes of sketches, got values of type {got}")));
        }
    }
    gil::released(py, || worked_out(&columns, &wanted)).map(RecordBatch::of).map_err(errors::bad_value)
}

fn worked_out(columns: &[column::Column<'_>], percents: &[u8]) -> Result<ExportedBatch, String> {
    let rows = columns.iter().map(|column| column.length).sum();
    let mut values = vec![Vec::with_capacity(rows); percents.len()];
    let mut valid = ValidityBitmap::with_capacity(rows);
    for column in columns {
        let Values::Texts(text) = &column.values else { continue };
        for row in 0..column.length {
            let mut sketch = None;
            if column.validity.get(row) {
                let place = valid.len();
                let bytes =
                    text.get(row).ok_or_else(|| format!("sketch {place} does not lie in its column's bytes"))?;
                sketch = Some(bytes::decode(bytes).map_err(|refusal| format!("sketch {place}: {refusal}"))?);
            }
            for (values, percent) in values.iter_mut().zip(percents) {
                values.push(sketch.as_ref().and_then(|sketch| sketch.percentile(*percent)).unwrap_or_default());
            }
            valid.push(sketch.is_some_and(|sketch| sketch.count() > 0));
        }
    }
    let validity = || (valid.zeros() > 0).then(|| (valid.clone().into_bytes(), valid.zeros()));
    let column = |(values, percent): (Vec<f64>, &u8)| ExportedColumn {
        name: format!("p{percent}"),
        format: "g".to_owned(),
        validity: validity(),
        data: Data::Float64(Arc::new(values)),
    };
    Ok(ExportedBatch { rows, columns: values.into_iter().zip(percents).map(column).collect() })
}
