//! The records of many lines, as columns.
//!
//! # Invariants
//! 1. All columns have a place for each record, in the order of the lines. A place that is not valid holds 0 or no byte.
//! 2. The bytes of text `n` lie between the ends `n` and `n + 1` of [`Texts::ends`]. The first of these ends is 0.

use super::format::LineFormat;
use super::json;
use super::line::{LastStamp, Reason, Record, parse};
use super::validity_bitmap::ValidityBitmap;

/// Texts, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Texts {
    /// A 0, and the end of each text.
    pub ends: Vec<i32>,
    /// Their bytes.
    pub bytes: Vec<u8>,
}

impl Texts {
    /// Makes an empty column with room for some texts.
    pub fn with_capacity(texts: usize, bytes: usize) -> Self {
        let mut ends = Vec::with_capacity(texts + 1);
        ends.push(0);
        Self { ends, bytes: Vec::with_capacity(bytes) }
    }

    /// Adds a text. The caller ensures that the bytes stay below [`i32::MAX`].
    #[inline]
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len() as i32);
    }
}

/// Records as columns.
#[derive(Clone, Debug)]
pub struct Records {
    /// The addresses of the clients.
    pub client: Texts,
    /// Epoch seconds.
    pub second: Vec<i64>,
    /// Paths.
    pub endpoint: Texts,
    /// HTTP statuses.
    pub status: Vec<i64>,
    /// Bytes of the answers.
    pub size: Vec<i64>,
    /// Referrers, valid by [`Records::referred`].
    pub referrer: Texts,
    /// The records with a referrer; None (the same as `named`) until a record has only one of referrer and user agent.
    referred: Option<ValidityBitmap>,
    /// User agents, valid by [`Records::named`].
    pub agent: Texts,
    /// The records with a user agent.
    pub named: ValidityBitmap,
    /// Request times, valid by [`Records::timed`].
    pub milliseconds: Vec<f64>,
    /// The records with a request time.
    pub timed: ValidityBitmap,
    last: LastStamp,
}

impl Records {
    /// Makes empty columns with room for the records of `lines` lines with `bytes` bytes in all.
    pub fn with_capacity(lines: usize, bytes: usize) -> Self {
        let texts = |part| Texts::with_capacity(lines, bytes / part);
        Self {
            client: texts(12),
            second: Vec::with_capacity(lines),
            endpoint: texts(5),
            status: Vec::with_capacity(lines),
            size: Vec::with_capacity(lines),
            referrer: texts(5),
            referred: None,
            agent: texts(2),
            named: ValidityBitmap::with_capacity(lines),
            milliseconds: Vec::with_capacity(lines),
            timed: ValidityBitmap::with_capacity(lines),
            last: LastStamp::default(),
        }
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.second.len()
    }

    /// Returns the records with a referrer.
    pub fn referred(&self) -> &ValidityBitmap {
        self.referred.as_ref().unwrap_or(&self.named)
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.second.is_empty()
    }

    /// Reads one more line, by the format if there is one. A carriage return at the end is part of the line end.
    #[inline]
    pub fn read(&mut self, line: &[u8], format: Option<&LineFormat>) -> Result<(), Reason> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let record = match format {
            None => parse(line, &mut self.last)?,
            Some(format) if format.tail.is_none() => return self.read_json(line, format),
            Some(format) => format.parse(line, &mut self.last)?,
        };
        self.push(&record);
        Ok(())
    }

    fn read_json(&mut self, line: &[u8], format: &LineFormat) -> Result<(), Reason> {
        let values = json::values(format.prefix.strip(line).ok_or(Reason::Prefix)?, format)?;
        let record = json::record(&format.fields, &values, &mut self.last)?;
        self.push(&record);
        Ok(())
    }

    #[inline]
    fn push(&mut self, record: &Record<'_>) {
        self.client.push(record.client);
        self.second.push(record.second);
        self.endpoint.push(record.endpoint);
        self.status.push(record.status);
        self.size.push(record.size);
        self.referrer.push(record.referrer.unwrap_or_default());
        self.agent.push(record.agent.unwrap_or_default());
        if self.referred.is_some() || record.referrer.is_some() != record.agent.is_some() {
            self.referred.get_or_insert_with(|| self.named.clone()).push(record.referrer.is_some());
        }
        self.named.push(record.agent.is_some());
        self.milliseconds.push(record.milliseconds.unwrap_or_default());
        self.timed.push(record.milliseconds.is_some());
    }
}
