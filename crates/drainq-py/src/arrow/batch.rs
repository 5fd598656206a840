//! `drainq.columns.RecordBatch`: columns of ours for any library that takes Arrow data.

use super::c_data::Struct;
use super::export::{self, ExportedBatch};
use crate::pickling;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;

/// Columns of the same length, for any library that takes Arrow data, without a copy.
///
/// Made by ``parse_access_log`` and ``GroupBy.result``. Hand it to ``pyarrow.record_batch``, ``polars.DataFrame``, or name
/// it in a query of DuckDB; each may take it as often as it likes.
///
/// Example:
///     >>> import pyarrow as pa
///     >>> from drainq.columns import GroupBy
///     >>> groups = GroupBy("word", {"times": "count"})
///     >>> groups.add(pa.record_batch({"word": ["a", "b", "a"]}))
///     >>> batch = groups.result()
///     >>> batch.column_names, len(batch)
///     (['word', 'times'], 2)
///     >>> pa.record_batch(batch).to_pydict()
///     {'word': ['a', 'b'], 'times': [2, 1]}
///
/// Source: "The Arrow PyCapsule Interface" of Apache Arrow's format specification.
#[pyclass(frozen, module = "drainq.columns", weakref)]
pub struct RecordBatch {
    batch: Arc<ExportedBatch>,
}

impl RecordBatch {
    /// Returns the object of these columns.
    pub fn of(batch: ExportedBatch) -> Self {
        Self { batch: Arc::new(batch) }
    }
}

#[pymethods]
impl RecordBatch {
    /// How many rows there are.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.rows
    }

    /// How many columns there are.
    #[getter]
    fn num_columns(&self) -> usize {
        self.batch.columns.len()
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<&str> {
        self.batch.columns.iter().map(|column| column.name.as_str()).collect()
    }

    fn __len__(&self) -> usize {
        self.batch.rows
    }

    /// The types as a capsule.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule(py, export::schema(&self.batch))
    }

    /// The types and the columns as capsules; another type than theirs is not made.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema; // the interface leaves it to the producer
        Ok((capsule(py, export::schema(&self.batch))?, capsule(py, export::array(&self.batch))?))
    }

    /// A stream of this one batch, as a capsule.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        capsule(py, export::stream(&self.batch))
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        pickling::refuse(slf, "its columns are memory of this process", "pyarrow.record_batch(batch), which pickles")
    }

    fn __repr__(&self) -> String {
        format!("<RecordBatch of {} rows: {}>", self.batch.rows, self.column_names().join(", "))
    }
}

fn capsule<T: Struct + Send + 'static>(py: Python<'_>, content: T) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, content, T::CAPSULE)
}
