//! `drainq.columns.GroupBy`: the core's aggregates by key over Arrow data.
//!
//! # Invariants
//! 1. The groups are taken out of their place for the time of a call, with the GIL held, and put back at its end; the call
//!    works on them without the GIL. So no lock is held while the GIL is given up, and a second thread that comes
//!    meanwhile is refused.
//! 2. A child that is forked in the meantime finds the place empty for ever; its calls say that.

use crate::arrow::batch::RecordBatch;
use crate::arrow::export::{Data, ExportedBatch, ExportedColumn};
use crate::arrow::unreadable::refused;
use crate::arrow::{import, view};
use crate::fork::Generation;
use crate::{arguments, core_errors, errors, gil, pickling};
use drainq_core::columns::column::{Kind, Type};
use drainq_core::columns::group_by::aggregate::{AggregateFunction, Output};
use drainq_core::columns::group_by::keys::KeyColumn;
use drainq_core::columns::group_by::{self as core, GroupByRefusal, GroupByRequest};
use drainq_core::columns::text_ends::TextEnds;
use drainq_core::columns::validity_bitmap::ValidityBitmap;
use drainq_core::sketch::{self, DDSketch};
use drainq_core::sync::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use std::sync::Arc;

/// Where the groups are.
enum Place {
    /// Here.
    Here(Box<core::GroupBy>),
    /// With a call of this process; how many groups there were before it.
    Away(Generation, usize),
}

/// Aggregate columns by key: SQL's ``GROUP BY``, fed batch by batch, without the GIL.
///
/// The results of several ``GroupBy`` (of threads, tasks, machines) merge: ``merge`` takes what ``result`` returns.
/// One thread at a time may call; give each thread its own.
///
/// Args:
///     keys: the name of a column, or a sequence of names. Whole numbers, strings, bytes, dates, times, timestamps, truth
///         values; dictionaries of these. Rows whose key is null are a group, as in SQL.
///     aggregates: name of the result -> function, or (column, function) if the column has another name. The
///         functions: ``"sum"`` (whole numbers: exact; floats), ``"count"`` (of the values; of the rows if the
///         batches have no such column), ``"min"``, ``"max"`` (numbers, dates, times; NaN only if there is nothing
///         else), ``"sketch"`` (the bytes of a ``DDSketch``). Nulls are left out; of nulls alone the
///         sum, minimum and maximum are null, the count is 0 and the sketch is empty.
///     max_groups: the most groups to hold; ``None`` is unbounded. A batch that would bring more is refused
///         with ``TooManyGroups`` and not added: pass on ``take()`` and add the batch again.
///     relative_accuracy: of the sketches.
/// Raises:
///     ValueError: an argument is empty, names something twice, names no function, or is out of its range.
///
/// Example:
///     >>> import pyarrow as pa
///     >>> from drainq.columns import GroupBy
///     >>> groups = GroupBy("path", {"bytes": "sum", "requests": "count", "slowest": ("ms", "max")})
///     >>> groups.add(pa.record_batch({"path": ["/", "/a", "/"], "bytes": [1, 2, 3], "ms": [0.5, 9.0, 7.5]}))
///     >>> pa.record_batch(groups.result()).to_pylist()
///     [{'path': '/', 'bytes': 4, 'requests': 2, 'slowest': 7.5}, {'path': '/a', 'bytes': 2, 'requests': 1, 'slowest': 9.0}]
#[pyclass(frozen, module = "drainq.columns", weakref)]
pub struct GroupBy {
    place: Mutex<Place>,
    request: GroupByRequest,
}

#[pymethods]
impl GroupBy {
    #[new]
    #[pyo3(signature = (keys, aggregates, *, max_groups=None, relative_accuracy=sketch::DEFAULT_ACCURACY))]
    fn new(
        keys: &Bound<'_, PyAny>,
        aggregates: &Bound<'_, PyDict>,
        #[pyo3(from_py_with = arguments::max_groups)] max_groups: Option<i64>,
        #[pyo3(from_py_with = arguments::relative_accuracy)] relative_accuracy: f64,
    ) -> PyResult<Self> {
        let keys = names(keys)?;
        let aggregates = functions(aggregates)?;
        let mut results: Vec<&String> = keys.iter().chain(aggregates.iter().map(|(name, ..)| name)).collect();
        results.sort_unstable();
        if let Some(twice) = results.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(errors::bad_value(format!(
                "keys and aggregates must have names of their own, got {:?} twice",
                twice[0]
            )));
        }
        let most = |most: i64| {
            usize::try_from(most).ok().filter(|most| *most > 0).ok_or_else(|| {
                errors::bad_value(format!("max_groups must be None (unbounded) or at least 1, got {most}"))
            })
        };
        let sketch =
            DDSketch::new(relative_accuracy, None).map_err(|refusal| errors::bad_value(refusal.to_string()))?;
        let request = GroupByRequest { keys, aggregates, max_groups: max_groups.map(most).transpose()?, sketch };
        Ok(Self { place: Mutex::new(Place::Here(Box::new(core::GroupBy::new(request.clone())))), request })
    }

    /// Add the rows of a batch or a table: all of them or, if it is refused, none.
    ///
    /// Args:
    ///     batch: has Arrow's PyCapsule interface, and the columns that the keys and aggregates name; others are left alone.
    /// Raises:
    ///     TooManyGroups: there would be more than ``max_groups``.
    ///     KeyError: a column is missing.
    ///     TypeError: a column has a type that its key or aggregate does not take, or not that of the batches before.
    ///     ValueError: a value for a sketch is NaN or infinite.
    ///     RuntimeError: another thread is using these groups.
    fn add(&self, batch: &Bound<'_, PyAny>) -> PyResult<()> {
        self.take_in("batch", batch, false)
    }

    /// Add a partial result: what ``result`` of a ``GroupBy`` of the same keys and aggregates returned, or that itself.
    ///
    /// Args:
    ///     partial: a ``GroupBy``, or columns of its results with Arrow's PyCapsule interface; it stays as it is.
    /// Raises:
    ///     As ``add``; ValueError as well if a sketch is none, or has another accuracy.
    fn merge(&self, partial: &Bound<'_, PyAny>) -> PyResult<()> {
        match partial.cast::<Self>() {
            Ok(groups) => {
                let result = Bound::new(partial.py(), groups.get().result(partial.py())?)?;
                self.take_in("partial", result.as_any(), true)
            }
            Err(_) => self.take_in("partial", partial, true),
        }
    }

    /// The keys and aggregates of all groups, in the order in which their keys first came; they stay.
    ///
    /// Returns:
    ///     A ``RecordBatch``: keys in their own type, sums as 64-bit numbers, counts as int64, sketches as binary.
    /// Raises:
    ///     OverflowError: a sum does not fit in 64 bits; it is kept exactly, and later rows may bring it back.
    fn result(&self, py: Python<'_>) -> PyResult<RecordBatch> {
        self.borrowed(py, |groups| batch_of(groups))?
            .map(RecordBatch::of)
            .map_err(|refusal| core_errors::of_group_by(py, refusal))
    }

    /// As ``result``, and forget the groups.
    fn take(&self, py: Python<'_>) -> PyResult<RecordBatch> {
        let work = |groups: &mut core::GroupBy| {
            let batch = batch_of(groups)?;
            *groups = groups.emptied();
            Ok(batch)
        };
        self.borrowed(py, work)?.map(RecordBatch::of).map_err(|refusal| core_errors::of_group_by(py, refusal))
    }

    /// The most groups to hold; None is unbounded.
    #[getter]
    fn max_groups(&self) -> Option<usize> {
        self.request.max_groups
    }

    fn __len__(&self) -> usize {
        match &*self.place.lock() {
            Place::Here(groups) => groups.len(),
            Place::Away(_, before) => *before,
        }
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        pickling::refuse(
            slf,
            "its groups are memory of this process",
            "pyarrow.record_batch(groups.result()), and merge() that there",
        )
    }

    fn __repr__(&self) -> String {
        format!("<GroupBy {}: {} groups>", self.request.keys.join(", "), self.__len__())
    }
}

impl GroupBy {
    /// Runs `work` on the groups, without the GIL.
    fn borrowed<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut core::GroupBy) -> R + Send) -> PyResult<R> {
        let mut place = self.place.lock();
        let mut groups = match &mut *place {
            Place::Here(groups) => {
                let away = Place::Away(Generation::now(), groups.len());
                let Place::Here(groups) = std::mem::replace(&mut *place, away) else {
                    return Err(errors::internal("the groups were here"));
                };
                groups
            }
            Place::Away(since, _) if since.is_past() => {
                return Err(errors::bad_state(
                    "this process was forked while another thread used these groups: make a GroupBy of its own",
                ));
            }
            Place::Away(..) => {
                return Err(errors::bad_state(
                    "another thread is using these groups: give each thread a GroupBy of its own, and merge() them",
                ));
            }
        };
        drop(place);
        let (groups, done) = gil::released(py, move || {
            let done = work(&mut groups);
            (groups, done)
        });
        *self.place.lock() = Place::Here(groups);
        Ok(done)
    }

    fn take_in(&self, name: &str, object: &Bound<'_, PyAny>, partial: bool) -> PyResult<()> {
        let py = object.py();
        let imported = import::arrays_of(name, object)?;
        let unreadable = |unreadable| refused(name, unreadable);
        let mut batches = Vec::new();
        for batch in view::batches(&imported).map_err(unreadable)? {
            if batch.rows() > 0 {
                batches.push(self.columns(&batch, partial).map_err(unreadable)?);
            }
        }
        let done = self.borrowed(py, |groups| if partial { groups.merge(&batches) } else { groups.add(&batches) })?;
        done.map_err(|refusal| core_errors::of_group_by(py, refusal))
    }

    /// Returns the columns of a batch that are asked for.
    fn columns<'a>(
        &self,
        batch: &view::ImportedBatch<'a>,
        partial: bool,
    ) -> Result<core::RequestedColumns<'a>, view::Unreadable> {
        let keys = self.request.keys.iter().map(|name| batch.column(name)).collect::<Result<_, _>>()?;
        let value = |(result, function, column): &(String, AggregateFunction, String)| {
            if partial {
                batch.column(result).map(Some)
            } else if *function == AggregateFunction::Count && !batch.has(column) {
                Ok(None)
            } else {
                batch.column(column).map(Some)
            }
        };
        let values = self.request.aggregates.iter().map(value).collect::<Result<_, _>>()?;
        Ok(core::RequestedColumns { rows: batch.rows(), keys, values })
    }
}

/// Returns the names of the key columns.
fn names(keys: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let names = match keys.cast::<PyString>() {
        Ok(name) => vec![name.to_string()],
        Err(_) => keys.extract::<Vec<String>>().or_else(|_| {
            let got = errors::shown(keys)?;
            Err(errors::bad_type(format!("keys must be the name of a column or a sequence of names, got {got}")))
        })?,
    };
    if names.is_empty() {
        return Err(errors::bad_value("keys must name at least one column, got none"));
    }
    Ok(names)
}

/// Returns the aggregates: name of the result, function, column.
fn functions(aggregates: &Bound<'_, PyDict>) -> PyResult<Vec<(String, AggregateFunction, String)>> {
    let mut found = Vec::with_capacity(aggregates.len());
    for (name, asked) in aggregates.iter() {
        let pair = match asked.cast::<PyTuple>() {
            Ok(pair) => pair.extract::<(String, String)>(),
            Err(_) => asked.extract::<String>().and_then(|function| Ok((name.extract()?, function))),
        };
        let (Ok(name), Ok((column, function))) = (name.extract::<String>(), pair) else {
            let shown = (errors::shown(&name)?, errors::shown(&asked)?);
            return Err(errors::bad_type(format!(
                "aggregates must map names to functions or to (column, function), got {}: {}",
                shown.0, shown.1
            )));
        };
        let function = match function.as_str() {
            "sum" => AggregateFunction::Sum,
            "count" => AggregateFunction::Count,
            "min" => AggregateFunction::Min,
            "max" => AggregateFunction::Max,
            "sketch" => AggregateFunction::Sketch,
            other => {
                return Err(errors::bad_value(format!(
                    "aggregates[{name:?}] must be one of sum, count, min, max, sketch, got {other:?}"
                )));
            }
        };
        found.push((name, function, column));
    }
    Ok(found)
}

fn batch_of(groups: &core::GroupBy) -> Result<ExportedBatch, GroupByRefusal> {
    let request = groups.request();
    let results = request.aggregates.iter().map(|(name, ..)| name);
    let Some(outputs) = groups.results() else {
        let column =
            |name: &String| ExportedColumn { name: name.clone(), format: "n".into(), validity: None, data: Data::None };
        return Ok(ExportedBatch { rows: 0, columns: request.keys.iter().chain(results).map(column).collect() });
    };
    let mut columns = Vec::new();
    for (name, (kind, keys)) in request.keys.iter().zip(groups.keys().into_iter().flatten()) {
        columns.push(match keys {
            KeyColumn::Ints { values, valid } => of_ints(name, kind, values.clone(), valid.clone()),
            KeyColumn::Texts { ends, bytes, valid } => of_texts(name, kind, ends, bytes.clone(), valid.clone()),
        });
    }
    for (name, (kind, output)) in results.zip(outputs?) {
        columns.push(match output {
            Output::Ints(values, valid) => of_ints(name, &kind, values, valid),
            Output::Floats(values, valid) => {
                let is_single = kind.kind == Kind::Float { width: 4 };
                let single = || Data::Float32(values.iter().map(|value| *value as f32).collect());
                column(name, &kind, valid, if is_single { single() } else { Data::Float64(values) })
            }
            Output::Bytes(ends, bytes) => of_texts(name, &kind, &ends, bytes, ValidityBitmap::default()),
        });
    }
    Ok(ExportedBatch { rows: groups.len(), columns })
}

fn of_ints(name: &str, kind: &Type, values: Arc<Vec<i64>>, valid: ValidityBitmap) -> ExportedColumn {
    let data = match kind.kind {
        Kind::Int { width: 0, .. } => {
            let mut bits = ValidityBitmap::with_capacity(values.len());
            values.iter().for_each(|value| bits.push(*value != 0));
            Data::Bits(bits.into_bytes())
        }
        Kind::Int { width: 1, .. } => Data::Int8(values.iter().map(|value| *value as i8).collect()),
        Kind::Int { width: 2, .. } => Data::Int16(values.iter().map(|value| *value as i16).collect()),
        Kind::Int { width: 4, .. } => Data::Int32(values.iter().map(|value| *value as i32).collect()),
        _ => Data::Int64(values),
    };
    column(name, kind, valid, data)
}

fn of_texts(name: &str, kind: &Type, ends: &[usize], bytes: Arc<Vec<u8>>, valid: ValidityBitmap) -> ExportedColumn {
    let (kind, ends) = TextEnds::of(kind, ends);
    column(name, &kind, valid, Data::Texts(ends, bytes))
}

fn column(name: &str, kind: &Type, valid: ValidityBitmap, data: Data) -> ExportedColumn {
    let missing = valid.zeros();
    let validity = (missing > 0).then(|| (valid.into_bytes(), missing));
    ExportedColumn { name: name.to_owned(), format: kind.format.clone(), validity, data }
}
