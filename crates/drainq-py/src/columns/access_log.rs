//! `parse_access_log`: the core's reader over Arrow arrays of lines.

use crate::arrow::batch::RecordBatch;
use crate::arrow::export::{Data, ExportedBatch, ExportedColumn};
use crate::arrow::unreadable::refused;
use crate::arrow::{import, view};
use crate::{errors, gil};
use drainq_core::columns::access_log::line::lines_of;
use drainq_core::columns::access_log::records::{Records, Texts};
use drainq_core::columns::column::{self, Kind, Values};
use drainq_core::columns::text_ends::TextEnds;
use drainq_core::columns::validity_bitmap::ValidityBitmap;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;

/// Bytes of a line for which room is made beforehand.
const USUAL_LINE: usize = 200;

/// A line that is no record: its place, the line, the reason.
type BadLine = (usize, Vec<u8>, String);
/// The same for Python.
type BadLines<'py> = Vec<(usize, Bound<'py, PyBytes>, String)>;

/// Reads lines of access logs, in the Common or the Combined Log Format, into columns.
///
/// The lines are read where they lie, without the GIL. The columns, all of them with a row for each record, in the
/// order of the lines: ``client``, ``second`` (int64, epoch seconds, UTC), ``endpoint`` (the path without its query),
/// ``status`` and ``size`` (int64; bytes), ``referrer`` and ``agent`` (null in the Common Log Format), ``milliseconds``
/// (float64; null if the line has no request time). The texts are strings if the lines are strings, else binary, as the
/// server wrote them.
///
/// Args:
///     lines: strings or bytes with Arrow's PyCapsule interface, without their line ends, none of them null; or a piece of
///         a log as ``bytes``, whose lines end with ``\n``, the last one perhaps without. A ``\r`` at the end of a line is
///         not part of it. At most 2 GiB in one call.
/// Returns:
///     The columns as a ``RecordBatch``, and the lines that are no records as a list of (place in ``lines``, line, reason).
/// Raises:
///     TypeError: ``lines`` is neither ``bytes`` nor an Arrow array of strings or bytes.
///     ValueError: a line is null, or there are more than 2 GiB.
///
/// Example:
///     >>> import pyarrow as pa
///     >>> from drainq.columns import parse_access_log
///     >>> columns, bad = parse_access_log(pa.array([
///     ...     '::1 - - [17/May/2015:10:05:03 +0000] "GET /a?b HTTP/1.1" 200 17',
///     ...     "rubbish",
///     ... ]))
///     >>> pa.record_batch(columns).select(["client", "endpoint", "size"]).to_pylist()
///     [{'client': '::1', 'endpoint': '/a', 'size': 17}]
///     >>> bad
///     [(1, b'rubbish', "no 'client ident user [' at the start")]
///
/// Source: the formats are those of Apache's ``mod_log_config``.
#[pyfunction]
pub fn parse_access_log<'py>(lines: &Bound<'py, PyAny>) -> PyResult<(RecordBatch, BadLines<'py>)> {
    let py = lines.py();
    if let Ok(piece) = lines.cast::<PyBytes>() {
        let piece = piece.as_bytes();
        check_size(piece.len()).map_err(errors::bad_value)?;
        let (records, bad) = gil::released(py, || read_piece(piece));
        return Ok((RecordBatch::of(batch(records, "z")), for_python(py, bad)));
    }
    let imported = import::arrays_of("lines", lines)?;
    let columns = view::columns("lines", &imported).map_err(|unreadable| refused("lines", unreadable))?;
    let mut format = "z";
    for column in &columns {
        if column.kind.kind != Kind::Text {
            let got = column.kind.name();
            return Err(errors::bad_type(format!("lines must be strings or bytes, got values of type {got}")));
        }
        format = if column.kind.format == "u" { "u" } else { "z" };
    }
    let (records, bad) = gil::released(py, || read(&columns)).map_err(errors::bad_value)?;
    Ok((RecordBatch::of(batch(records, format)), for_python(py, bad)))
}

fn for_python(py: Python<'_>, bad: Vec<BadLine>) -> BadLines<'_> {
    bad.into_iter().map(|(place, line, reason)| (place, PyBytes::new(py, &line), reason)).collect()
}

fn check_size(bytes: usize) -> Result<(), String> {
    if bytes > i32::MAX as usize {
        return Err(format!("lines must be at most {} bytes in one call, got {bytes}: pass slices", i32::MAX));
    }
    Ok(())
}

/// Reads the lines of a piece of a log.
fn read_piece(piece: &[u8]) -> (Records, Vec<BadLine>) {
    let mut records = Records::with_capacity(piece.len() / USUAL_LINE, piece.len());
    let mut bad = Vec::new();
    for (place, line) in lines_of(piece).enumerate() {
        read_line(&mut records, &mut bad, place, line);
    }
    (records, bad)
}

fn read_line(records: &mut Records, bad: &mut Vec<BadLine>, place: usize, line: &[u8]) {
    if let Err(reason) = records.read(line) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        bad.push((place, line.to_vec(), reason.text().into_owned()));
    }
}

fn read(columns: &[column::Column<'_>]) -> Result<(Records, Vec<BadLine>), String> {
    let mut bytes = 0;
    for column in columns {
        let Values::Texts(text) = &column.values else { return Err("lines are texts".to_owned()) };
        bytes += text.size(column.length).ok_or("lines: a text does not lie in its bytes")?;
    }
    check_size(bytes)?;
    let rows = columns.iter().map(|column| column.length).sum();
    let (mut records, mut bad, mut place) = (Records::with_capacity(rows, bytes), Vec::new(), 0);
    for column in columns {
        let Values::Texts(text) = &column.values else { continue };
        for row in 0..column.length {
            if !column.validity.get(row) {
                return Err(format!("line {place} is null: drop nulls first"));
            }
            let line = text.get(row).ok_or_else(|| format!("line {place} does not lie in its column's bytes"))?;
            read_line(&mut records, &mut bad, place, line);
            place += 1;
        }
    }
    Ok((records, bad))
}

fn batch(records: Records, format: &str) -> ExportedBatch {
    let rows = records.len();
    let column = |name: &str, format: &str, valid: Option<&ValidityBitmap>, data| ExportedColumn {
        name: name.to_owned(),
        format: format.to_owned(),
        validity: valid.filter(|valid| valid.zeros() > 0).map(|valid| (valid.clone().into_bytes(), valid.zeros())),
        data,
    };
    let text = |name, valid, texts: Texts| {
        column(name, format, valid, Data::Texts(TextEnds::Small(texts.ends), Arc::new(texts.bytes)))
    };
    let number = |name, values| column(name, "l", None, Data::Int64(Arc::new(values)));
    let (named, timed) = (Some(&records.named), Some(&records.timed));
    let columns = vec![
        text("client", None, records.client),
        number("second", records.second),
        text("endpoint", None, records.endpoint),
        number("status", records.status),
        number("size", records.size),
        text("referrer", named, records.referrer),
        text("agent", named, records.agent),
        column("milliseconds", "g", timed, Data::Float64(Arc::new(records.milliseconds))),
    ];
    ExportedBatch { rows, columns }
}
