//! One line of an access log, read from left to right.
//!
//! # Invariants
//! 1. The next bytes decide each step, so a line is read once, without a second try.
//!    Where the format allows a user name with spaces, the first `[` decides: a user name of one word may contain a
//!    `[`, and a user name of several words ends before the first `[`.
//! 2. A line with a prefix is no record, because its fields are shifted. The check: the client is a host, or an address
//!    without a port, and no word of a user name of several words is `-`, which a server writes for an unknown name.
//! 3. All fields are slices of the line, cut at ASCII bytes. If the line is UTF-8, so are its fields.
//! 4. Inside quotes a backslash escapes the byte after it. Fields stay as the server wrote them.

use super::endpoint::endpoint_of;
use super::stamp;

/// Returns the lines of a piece of a log, without their `\n`, which the last line may lack.
pub fn lines_of(piece: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut begin = 0;
    std::iter::from_fn(move || {
        let rest = piece.get(begin..).filter(|rest| !rest.is_empty())?;
        let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        begin += length + 1;
        Some(&rest[..length])
    })
}

/// The fields of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Record<'a> {
    /// The address of the client.
    pub client: &'a [u8],
    /// Epoch seconds, UTC.
    pub second: i64,
    /// The path of the request.
    pub endpoint: &'a [u8],
    /// The HTTP status.
    pub status: i64,
    /// Bytes of the answer; 0 if the log has `-`.
    pub size: i64,
    /// The referrer; None if the format has none.
    pub referrer: Option<&'a [u8]>,
    /// The user agent; None if the format has none.
    pub agent: Option<&'a [u8]>,
    /// The time of the request; None if the line has none.
    pub milliseconds: Option<f64>,
}

/// Why a line is no record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// The line has no byte.
    Empty,
    /// The line has only blanks.
    Blank,
    /// The beginning of the line is missing.
    Beginning,
    /// The brackets around the time are missing, or the request after them.
    NoTime,
    /// The time is invalid.
    BadTime,
    /// The request does not end.
    Request,
    /// There is no status.
    Status,
    /// There is no size.
    Size,
    /// The referrer does not end.
    Referrer,
    /// The user agent is missing.
    NoAgent,
    /// The user agent does not end.
    Agent,
    /// There is text after the last field.
    Rest,
    /// The text between two fields of a declared format is missing.
    Form,
    /// A field of a declared format is no client.
    Client,
    /// A field of a declared format is no number of its kind.
    Number,
    /// The prefix of a declared format is missing.
    Prefix,
    /// The line is a directive of a W3C log.
    Directive,
    /// The line is no JSON.
    Json,
    /// The line is the beginning of JSON.
    Cut,
    /// A value of JSON is of another kind.
    Kind,
    /// JSON has no value for a required field.
    Missing,
}

impl Reason {
    /// Returns the reason in words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Empty => "empty line",
            Self::Blank => "blank line",
            Self::Beginning => "no 'client ident user [' at the start",
            Self::NoTime => "no time in brackets before the request",
            Self::BadTime => "no such time",
            Self::Request => "cut off in the request",
            Self::Status => "no status of three digits after the request",
            Self::Size => "no number of bytes after the status",
            Self::Referrer => "cut off in the referrer",
            Self::NoAgent => "no user agent after the referrer",
            Self::Agent => "cut off in the user agent",
            Self::Rest => "unexpected text after the last field",
            Self::Form => "not the text that the format has around its fields",
            Self::Client => "no client's address where the format has it",
            Self::Number => "no such number where the format has it",
            Self::Prefix => "no such prefix as the format has",
            Self::Directive => "a directive, no request",
            Self::Json => "no object of JSON",
            Self::Cut => "cut off in the JSON",
            Self::Kind => "no value of that kind where the format has it",
            Self::Missing => "no time, path or status under the keys that the format has",
        }
    }
}

/// The stamp that was read last: most lines have the stamp of the line before.
#[derive(Clone, Debug)]
pub struct LastStamp {
    stamp: [u8; stamp::LENGTH],
    second: i64,
}

impl Default for LastStamp {
    fn default() -> Self {
        Self { stamp: *b"01/Jan/1970:00:00:00 +0000", second: 0 }
    }
}

impl LastStamp {
    /// Returns the epoch seconds of a stamp, or None if there is no such time.
    pub fn second_of(&mut self, text: &[u8]) -> Option<i64> {
        if text != self.stamp {
            let second = stamp::second_of(text)?;
            *self = Self { stamp: text.try_into().ok()?, second };
        }
        Some(self.second)
    }
}

/// Reads a line, without its line end.
#[inline]
pub fn parse<'a>(line: &'a [u8], last: &mut LastStamp) -> Result<Record<'a>, Reason> {
    let mut rest = Rest(line);
    let Some(client) = rest.client() else { return Err(beginning(line)) };
    let stamp = rest.through_stamp().ok_or(Reason::NoTime)?;
    let request = rest.quoted().ok_or(Reason::Request)?;
    let status = rest.status().ok_or(Reason::Status)?;
    let size = rest.size().ok_or(Reason::Size)?;
    let (mut referrer, mut agent) = (None, None);
    if rest.0.starts_with(b" \"") {
        rest.skip(2);
        referrer = Some(rest.quoted().ok_or(Reason::Referrer)?);
        if !rest.0.starts_with(b" \"") {
            return Err(Reason::NoAgent);
        }
        rest.skip(2);
        agent = Some(rest.quoted().ok_or(Reason::Agent)?);
    }
    let milliseconds = rest.time_at_the_end().ok_or(Reason::Rest)?;
    let second = last.second_of(stamp).ok_or(Reason::BadTime)?;
    Ok(Record { client, second, endpoint: endpoint_of(request), status, size, referrer, agent, milliseconds })
}

/// Returns why a line has no beginning.
#[cold]
pub fn beginning(line: &[u8]) -> Reason {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0b' | b'\x0c');
    match line {
        [] => Reason::Empty,
        _ if line.iter().all(is_blank) => Reason::Blank,
        _ => Reason::Beginning,
    }
}

/// The unread rest of a line.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    #[inline]
    fn skip(&mut self, bytes: usize) {
        self.0 = &self.0[bytes..];
    }

    /// Reads a word, which has at least a byte and no quote, and the space after it.
    #[inline]
    fn word(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| matches!(byte, b' ' | b'"'))?;
        if end == 0 || self.0[end] != b' ' {
            return None;
        }
        let word = &self.0[..end];
        self.skip(end + 1);
        Some(word)
    }

    /// Reads the client, and skips everything before the first byte of the stamp.
    #[inline]
    fn client(&mut self) -> Option<&'a [u8]> {
        let client = self.word().filter(|word| is_client(word))?;
        self.word()?;
        let user = self.0;
        let begin = match self.word() {
            Some(_) if self.0.first() == Some(&b'[') => user.len() - self.0.len(),
            // A name of several words: all before the first bracket, without a quote, not ending in two spaces.
            _ => {
                let bracket = user.iter().position(|byte| matches!(byte, b'[' | b'"'))?;
                let is_name = user[bracket] == b'[' && bracket >= 2 && user[bracket - 1] == b' ';
                let is_name = is_name && user[bracket - 2] != b' ';
                (is_name && user[..bracket].split(|byte| *byte == b' ').all(|word| word != b"-")).then_some(bracket)?
            }
        };
        self.0 = &user[begin + 1..];
        Some(client)
    }

    /// Reads the text in the brackets, and skips the brackets, a space and the request's quote.
    #[inline]
    fn through_stamp(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| matches!(byte, b']' | b'"'))?;
        let stamp = &self.0[..end];
        if !self.0[end..].starts_with(b"] \"") {
            return None;
        }
        self.skip(end + 3);
        Some(stamp)
    }

    /// Reads a field up to the quote that ends it, and the quote.
    #[inline]
    fn quoted(&mut self) -> Option<&'a [u8]> {
        let mut end = 0;
        loop {
            end += memchr::memchr2(b'"', b'\\', self.0.get(end..)?)?;
            if self.0[end] == b'"' {
                let field = &self.0[..end];
                self.skip(end + 1);
                return Some(field);
            }
            end += 2;
        }
    }

    /// Reads a space and three digits.
    #[inline]
    fn status(&mut self) -> Option<i64> {
        let [b' ', digits @ ..] = self.0.first_chunk::<4>()? else { return None };
        if !digits.iter().all(u8::is_ascii_digit) || self.0.get(4).is_some_and(u8::is_ascii_digit) {
            return None;
        }
        self.skip(4);
        Some(number(digits))
    }

    /// Reads a space, then up to 15 digits or a `-`. No digit may follow.
    #[inline]
    fn size(&mut self) -> Option<i64> {
        let text = self.0.strip_prefix(b" ")?;
        let digits = text.iter().take(16).take_while(|byte| byte.is_ascii_digit()).count();
        let (size, length) = match (digits, text.first()) {
            (1..=15, _) => (number(&text[..digits]), digits),
            (0, Some(b'-')) if !text.get(1).is_some_and(u8::is_ascii_digit) => (0, 1),
            _ => return None,
        };
        self.0 = &text[length..];
        Some(size)
    }

    /// Reads nothing, or a space and seconds or `-`. The end must follow.
    #[inline]
    fn time_at_the_end(&self) -> Option<Option<f64>> {
        match self.0 {
            [] | b" -" => Some(None),
            [b' ', seconds @ ..] => seconds_of(seconds).map(|seconds| Some(1000.0 * seconds)),
            _ => None,
        }
    }
}

/// Whether a word is a host name, an IPv4 or IPv6 address, `-`, or `unix:`, which nginx writes for a unix socket.
#[inline]
pub fn is_client(word: &[u8]) -> bool {
    let is_name = |word: &[u8]| word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte));
    if is_name(word) || word == b"unix:" {
        return true;
    }
    let (address, scope) = match word.iter().position(|byte| *byte == b'%') {
        Some(percent) => (&word[..percent], &word[percent + 1..]),
        None => (word, &b"-"[..]),
    };
    let is_address = address.iter().all(|byte| byte.is_ascii_hexdigit() || b":.".contains(byte));
    is_address && address.iter().filter(|byte| **byte == b':').count() >= 2 && !scope.is_empty() && is_name(scope)
}

/// Parses digits. The caller ensures that there are at most 18.
#[inline]
pub fn number(digits: &[u8]) -> i64 {
    digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'))
}

/// Parses up to nine digits, and optionally a point and up to nine more.
pub fn seconds_of(text: &[u8]) -> Option<f64> {
    const POWERS: [f64; 10] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
    const EXACT: i64 = 1 << 53;
    let point = text.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = point.map_or((text, None), |point| (&text[..point], Some(&text[point + 1..])));
    let is_number = |digits: &[u8]| matches!(digits.len(), 1..=9) && digits.iter().all(u8::is_ascii_digit);
    if !is_number(whole) || !fraction.is_none_or(is_number) {
        return None;
    }
    let fraction = fraction.unwrap_or_default();
    let scaled = number(whole) * POWERS[fraction.len()] as i64 + number(fraction);
    if scaled <= EXACT {
        // Both operands of the division are exact, so the result is rounded once, and correctly.
        return Some(scaled as f64 / POWERS[fraction.len()]);
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}
