//! `read_access_log`: the core's reader of access logs, for `drainq.columns.parse_access_log`.

use super::to_bytes;
use crate::{errors, gil};
use drainq_core::access_log::format::{Field, LineFormat, Meaning, Prefix};
use drainq_core::access_log::json;
use drainq_core::access_log::line::lines_of;
use drainq_core::access_log::records::{Records, Texts};
use drainq_core::access_log::validity_bitmap::ValidityBitmap;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The bytes that are reserved for a line before the lines are read.
const USUAL_LINE: usize = 200;

/// A line that is no record: its place, the line, the reason.
type BadLine = (usize, Vec<u8>, &'static str);
/// The buffers of a column in Arrow's order: validity (None: all valid), the ends of texts (None: numbers), the values.
type Buffers<'py> = (Option<Bound<'py, PyBytes>>, Option<Bound<'py, PyBytes>>, Bound<'py, PyBytes>);

/// The number of records, the buffers of each column, and the bad lines.
type Columns<'py> = (usize, Vec<Buffers<'py>>, Vec<(usize, Bound<'py, PyBytes>, &'static str)>);

/// The prefix of each line, its fields (the text in front, the meaning, the scale), and the text after the last one;
/// for lines of JSON the last text is None, and the texts in front are paths of keys.
type Declared = (String, Vec<(String, String, f64)>, Option<String>);

/// Reads lines of an access log into columns, without the GIL.
#[pyfunction]
#[pyo3(signature = (piece, format=None))]
pub fn read_access_log<'py>(piece: &Bound<'py, PyBytes>, format: Option<Declared>) -> PyResult<Columns<'py>> {
    let format = format.map(format_of).transpose()?;
    let (py, bytes) = (piece.py(), piece.as_bytes());
    if bytes.len() > i32::MAX as usize {
        let (most, got) = (i32::MAX, bytes.len());
        return Err(errors::bad_value(format!(
            "lines must be at most {most} bytes in one call, got {got}: pass slices"
        )));
    }
    let (records, bad) = gil::released(py, || read(bytes, format.as_ref()));
    let bad = bad.into_iter().map(|(place, line, reason)| (place, PyBytes::new(py, &line), reason)).collect();
    Ok((records.len(), buffers(py, records), bad))
}

fn format_of((prefix, fields, tail): Declared) -> PyResult<LineFormat> {
    let prefix = match &*prefix {
        "" => Prefix::None,
        "cri" => Prefix::Cri,
        "syslog" => Prefix::Syslog,
        "w3c" => Prefix::W3c,
        _ => return Err(errors::bad_value(format!("no such prefix: {prefix:?}"))),
    };
    if fields.len() > json::FIELDS {
        return Err(errors::bad_value(format!("at most {} fields, got {}", json::FIELDS, fields.len())));
    }
    let field = |(before, name, scale): (String, String, f64)| {
        let meaning = Meaning::named(&name, scale);
        Ok(Field { before, meaning: meaning.ok_or_else(|| errors::bad_value(format!("no such field: {name:?}")))? })
    };
    Ok(LineFormat::new(prefix, fields.into_iter().map(field).collect::<PyResult<_>>()?, tail))
}

fn read(piece: &[u8], format: Option<&LineFormat>) -> (Records, Vec<BadLine>) {
    let mut records = Records::with_capacity(piece.len() / USUAL_LINE, piece.len());
    let mut bad = Vec::new();
    for (place, line) in lines_of(piece).enumerate() {
        if let Err(reason) = records.read(line, format) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            bad.push((place, line.to_vec(), reason.text()));
        }
    }
    (records, bad)
}

fn buffers(py: Python<'_>, records: Records) -> Vec<Buffers<'_>> {
    let valid = |bits: &ValidityBitmap| (bits.zeros() > 0).then(|| PyBytes::new(py, bits.as_bytes()));
    let text = |valid, texts: &Texts| {
        (valid, Some(to_bytes(py, &texts.ends, i32::to_ne_bytes)), PyBytes::new(py, &texts.bytes))
    };
    let number = |values: &[i64]| (None, None, to_bytes(py, values, i64::to_ne_bytes));
    vec![
        text(None, &records.client),
        number(&records.second),
        text(None, &records.endpoint),
        number(&records.status),
        number(&records.size),
        text(valid(records.referred()), &records.referrer),
        text(valid(&records.named), &records.agent),
        (valid(&records.timed), None, to_bytes(py, &records.milliseconds, f64::to_ne_bytes)),
    ]
}
