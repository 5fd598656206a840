//! Access logs: lines in the Common and the Combined Log Format, or in a format that the caller declares.
//!
//! ```text
//! client ident user [17/May/2015:10:05:03 +0000] "GET /path?query HTTP/1.1" 200 203023 "referrer" "user agent" 0.042
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`line`](mod@line) | one line: its record, or the reason why the line is no record |
//! | [`mod@format`] | one line by a table of fields, made from a declaration |
//! | [`json`] | one line of JSON by a table of fields |
//! | [`stamp`] | the time in brackets |
//! | [`endpoint`] | the path of a request |
//! | [`records`] | the records of many lines, as columns in Arrow's layout |
//! | [`validity_bitmap`] | which places of a column have a value |
//!
//! The rules are those of `tests/columns/line_rules.py`, which states them as regular expressions. A test generates
//! lines, and requires the same record, or the same reason, from that file and from this module.

pub mod endpoint;
pub mod format;
pub mod json;
pub mod line;
pub mod records;
pub mod stamp;
#[cfg(all(test, not(any(loom, drainq_shuttle))))]
mod tests;
pub mod validity_bitmap;
