//! A line by a declared format: a table of fields, each with the text in front of it.
//!
//! # Invariants
//! 1. A field ends where the text in front of the next one begins. Inside quotes a backslash escapes the byte after it.
//!    A list that nginx writes of several upstreams, with `, ` or ` : ` between them, is one field.
//! 2. A client, a user, a time and a number are checked, so that a line of another format is refused.

use super::endpoint::{NO_ENDPOINT, endpoint_of, path_of};
use super::line::{LastStamp, Reason, Record, is_client, number, seconds_of};
use super::stamp;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Meaning {
    /// The field is not read.
    Skipped,
    /// The whole rest of the line, which is not read.
    Remainder,
    /// A whole number that is not kept, or `-`.
    Digits,
    /// The client's address; of a list of addresses the first.
    Client,
    /// The client's address and port.
    ClientAndPort,
    /// `17/May/2015:10:05:03 +0000`.
    Stamp,
    /// `2015-05-17T10:05:03.5Z`.
    Iso,
    /// `2015-05-17`, in UTC.
    Day,
    /// `10:05:03`, in UTC.
    Clock,
    /// A user's name. Several words of which one is `-` are no name, because then the fields are shifted.
    User,
    /// The time since 1970 as a number. The variant holds the units per second.
    Epoch(f64),
    /// `GET /path HTTP/1.1`.
    Request,
    /// A path, perhaps with a query, or a URL.
    Target,
    /// The HTTP status.
    Status,
    /// Bytes.
    Size,
    /// The referrer.
    Referrer,
    /// The user agent.
    Agent,
    /// A part of the request time as a whole number; -1 or `-`: no time. The variant holds the units per millisecond.
    Whole(f64),
    /// A part of the request time in seconds with a decimal point; -1 or `-`: no time.
    Seconds,
    /// The request time as a number of JSON; -1 or `-`: no time. The variant holds the units per second.
    Amount(f64),
}

impl Meaning {
    /// Returns the meaning with this name. For a time, `scale` is the number of its units in a second.
    pub fn named(name: &str, scale: f64) -> Option<Self> {
        Some(match name {
            "" => Self::Skipped,
            "remainder" => Self::Remainder,
            "digits" => Self::Digits,
            "user" => Self::User,
            "client" => Self::Client,
            "client_and_port" => Self::ClientAndPort,
            "stamp" => Self::Stamp,
            "iso" => Self::Iso,
            "day" => Self::Day,
            "clock" => Self::Clock,
            "epoch" => Self::Epoch(scale),
            "request" => Self::Request,
            "target" => Self::Target,
            "status" => Self::Status,
            "size" => Self::Size,
            "referrer" => Self::Referrer,
            "agent" => Self::Agent,
            "whole" => Self::Whole(scale / 1000.0),
            "seconds" => Self::Seconds,
            "amount" => Self::Amount(scale),
            _ => return None,
        })
    }

    /// Whether the field is a number, which JSON may have without quotes.
    pub fn is_number(self) -> bool {
        matches!(self, Self::Epoch(_) | Self::Status | Self::Size | Self::Amount(_))
    }
}

/// A field: the text in front of it, and its meaning.
#[derive(Clone, Debug)]
pub struct Field {
    /// The text in front of the field; in JSON the keys that lead to it, joined by NUL.
    pub before: String,
    /// What it holds.
    pub meaning: Meaning,
}

/// What a logger writes in front of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Prefix {
    /// Nothing.
    None,
    /// `2015-05-17T10:05:03.123456789Z stdout F `, as container runtimes do.
    Cri,
    /// `<190>May 17 10:05:03 host tag: `, `2015-05-17T10:05:03Z host tag: ` or `<190>1 2015-05-17T10:05:03Z host tag 1 - - `.
    Syslog,
    /// Nothing, as in logs of W3C's extended format. Their directives begin with `#`.
    W3c,
}

impl Prefix {
    /// Returns the line behind the prefix.
    pub fn strip(self, line: &[u8]) -> Option<&[u8]> {
        let behind = |text, words: usize| {
            (0..words).try_fold(text, |rest: &[u8], _| Some(&rest[memchr::memchr(b' ', rest)? + 1..]))
        };
        match self {
            Self::None => Some(line),
            Self::W3c => (!line.starts_with(b"#")).then_some(line),
            Self::Cri => behind(line, 3).filter(|_| line.get(10) == Some(&b'T')),
            Self::Syslog => {
                let level = line.starts_with(b"<").then(|| memchr::memchr(b'>', line)).flatten();
                let line = &line[level.map_or(0, |end| end + 1)..];
                if let Some(rest) = line.strip_prefix(b"1 ") {
                    return behind(rest, 6);
                }
                let rest = if line.get(10) == Some(&b'T') { behind(line, 1)? } else { line.get(16..)? };
                let tag = behind(rest, 2)?;
                rest[..rest.len() - tag.len()].ends_with(b": ").then_some(tag)
            }
        }
    }
}

/// A format of lines.
#[derive(Clone, Debug)]
pub struct LineFormat {
    /// What is in front of each line.
    pub prefix: Prefix,
    /// The fields, from left to right.
    pub fields: Vec<Field>,
    /// The text after the last field; None if the lines are JSON.
    pub tail: Option<String>,
    /// For each byte, the fields of JSON whose paths begin with it, one bit each. An empty first key begins with 0.
    beginnings: [u64; 256],
}

impl LineFormat {
    /// Makes a format. A format of JSON has at most 64 fields.
    pub fn new(prefix: Prefix, fields: Vec<Field>, tail: Option<String>) -> Self {
        let mut beginnings = [0; 256];
        for (place, field) in fields.iter().enumerate().take(64) {
            beginnings[usize::from(field.before.bytes().next().unwrap_or(0))] |= 1 << place;
        }
        Self { prefix, fields, tail, beginnings }
    }

    /// Returns the fields of JSON whose paths may begin with this key. Most keys of most lines are in no path.
    pub(super) fn beginning_as(&self, key: &[u8]) -> u64 {
        self.beginnings[usize::from(key.first().copied().unwrap_or(0))]
    }

    /// Reads a line that is no JSON, without its line end.
    pub fn parse<'a>(&self, line: &'a [u8], last: &mut LastStamp) -> Result<Record<'a>, Reason> {
        let mut record = Record { client: b"-", endpoint: NO_ENDPOINT, ..Record::default() };
        let is_w3c = self.prefix == Prefix::W3c;
        let mut rest = self.prefix.strip(line).ok_or(if is_w3c { Reason::Directive } else { Reason::Prefix })?;
        let tail = self.tail.as_deref().unwrap_or_default();
        for (place, field) in self.fields.iter().enumerate() {
            rest = rest.strip_prefix(field.before.as_bytes()).ok_or(Reason::Form)?;
            let after = self.fields.get(place + 1).map_or(tail, |next| &*next.before).as_bytes();
            let end = match after {
                [] if field.meaning == Meaning::Remainder => rest.len(),
                [] => end_of(rest, b" ", !is_w3c).unwrap_or(rest.len()),
                _ => end_of(rest, after, !is_w3c).ok_or(Reason::Form)?,
            };
            let (text, more) = rest.split_at(end);
            rest = more;
            field.meaning.read(text, &mut record, last)?;
        }
        if rest == tail.as_bytes() { Ok(record) } else { Err(Reason::Rest) }
    }
}

impl Meaning {
    /// Checks a field, and puts it into the record.
    pub fn read<'a>(self, text: &'a [u8], record: &mut Record<'a>, last: &mut LastStamp) -> Result<(), Reason> {
        match self {
            Self::Skipped | Self::Remainder => {}
            Self::Digits => {
                let is_number = text == b"-" || !text.is_empty() && text.iter().all(u8::is_ascii_digit);
                is_number.then_some(()).ok_or(Reason::Number)?;
            }
            Self::User => {
                let is_name = text == b"-" || text.split(|byte| *byte == b' ').all(|word| word != b"-");
                is_name.then_some(()).ok_or(Reason::Form)?;
            }
            Self::Client => {
                let first = memchr::memchr(b',', text).map_or(text, |comma| &text[..comma]);
                record.client = client(first).ok_or(Reason::Client)?;
            }
            Self::ClientAndPort => {
                let colon = memchr::memrchr(b':', text).ok_or(Reason::Client)?;
                let address = &text[..colon];
                let bare = address.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
                record.client = client(bare.unwrap_or(address)).ok_or(Reason::Client)?;
            }
            Self::Stamp => record.second = last.second_of(text).ok_or(Reason::BadTime)?,
            Self::Iso => record.second = stamp::second_of_iso(text).ok_or(Reason::BadTime)?,
            Self::Day => {
                let text = [text, b"T00:00:00Z"].concat();
                record.second += stamp::second_of_iso(&text).ok_or(Reason::BadTime)?;
            }
            Self::Clock => {
                let text = [b"1970-01-01T", text, b"Z"].concat();
                record.second += stamp::second_of_iso(&text).ok_or(Reason::BadTime)?;
            }
            Self::Epoch(scale) => {
                let second = decimal(text).map(|number| (number / scale).floor());
                record.second = second.filter(|second| *second < 1e11).ok_or(Reason::BadTime)? as i64;
            }
            Self::Request => record.endpoint = endpoint_of(text),
            Self::Target => record.endpoint = path_of(text),
            Self::Status => {
                let is_status = text.len() == 3 && text.iter().all(u8::is_ascii_digit);
                record.status = is_status.then(|| number(text)).ok_or(Reason::Status)?;
            }
            Self::Size => {
                let is_size = matches!(text.len(), 1..=15) && text.iter().all(u8::is_ascii_digit);
                record.size = if text == b"-" { 0 } else { is_size.then(|| number(text)).ok_or(Reason::Size)? };
            }
            Self::Referrer => record.referrer = Some(text),
            Self::Agent => record.agent = Some(text),
            Self::Whole(_) | Self::Seconds | Self::Amount(_) if text == b"-" || text == b"-1" => {}
            Self::Whole(scale) => {
                let is_whole = matches!(text.len(), 1..=15) && text.iter().all(u8::is_ascii_digit);
                let time = is_whole.then(|| number(text) as f64 / scale).ok_or(Reason::Number)?;
                record.milliseconds = Some(record.milliseconds.unwrap_or_default() + time);
            }
            Self::Seconds => {
                let seconds = seconds_of(text).filter(|_| text.contains(&b'.')).ok_or(Reason::Number)?;
                record.milliseconds = Some(record.milliseconds.unwrap_or_default() + 1000.0 * seconds);
            }
            Self::Amount(scale) => {
                let amount = decimal(text).filter(|amount| *amount < 1e15).ok_or(Reason::Number)?;
                // One of the two is 1 and the other a whole number, so there is one rounding.
                let (times, parts) = if scale < 1e3 { (1e3 / scale, 1.0) } else { (1.0, scale / 1e3) };
                record.milliseconds = Some(amount * times / parts);
            }
        }
        Ok(())
    }
}

fn client(text: &[u8]) -> Option<&[u8]> {
    (!text.is_empty() && is_client(text)).then_some(text)
}

/// Parses digits, and optionally a point, more digits and an exponent.
fn decimal(text: &[u8]) -> Option<f64> {
    let is_number = text.first()?.is_ascii_digit() && text.iter().all(|byte| b"0123456789.eE+-".contains(byte));
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

/// Returns where a field ends, or None if the text after it is missing. `lists`: a field may be a list, `a, b : c`.
fn end_of(rest: &[u8], after: &[u8], lists: bool) -> Option<usize> {
    let mut end = 0;
    match after.first() {
        None => None,
        Some(b'"') => loop {
            end += memchr::memchr2(b'"', b'\\', rest.get(end..)?)?;
            if rest[end] == b'"' {
                return Some(end);
            }
            end += 2;
        },
        Some(first) => loop {
            end += memchr::memchr(*first, rest.get(end..)?)?;
            let (field, more) = rest.split_at(end);
            let goes_on = || field.ends_with(b",") || field.ends_with(b" :") || more.starts_with(b" : ");
            if more.starts_with(after) && !(lists && *first == b' ' && goes_on()) {
                return Some(end);
            }
            end += 1;
        },
    }
}
