//! A line of JSON by a declared format: a table of fields, each with the path of keys to its value.
//!
//! # Invariants
//! 1. A line is one object. Values that no field names are skipped.
//! 2. A value is a text, in a numeric field also a number, in others also an array, whose first element counts. Null,
//!    an empty text and an empty array are no value. A text's escapes are decoded; its bytes need not be UTF-8.
//! 3. Of the fields for one column, the first one with a value is read.

use super::endpoint::NO_ENDPOINT;
use super::format::{Field, LineFormat, Meaning};
use super::line::{LastStamp, Reason, Record, beginning};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The most fields of a format.
pub const FIELDS: usize = 64;

/// The value of each field in a line.
pub type Values<'a> = Vec<Option<Cow<'a, [u8]>>>;

/// Returns the values of a line. The format has at most [`FIELDS`] fields, each with its path in [`Field::before`].
pub fn values<'a>(line: &'a [u8], format: &LineFormat) -> Result<Values<'a>, Reason> {
    let mut values = vec![None; format.fields.len()];
    let mut reader = serde_json::Deserializer::from_slice(line);
    let object = Object { format, within: u64::MAX, depth: 0, values: &mut values };
    let read = object.deserialize(&mut reader).and_then(|()| reader.end());
    read.map(|()| values).map_err(|error| match (beginning(line), error.classify()) {
        (Reason::Beginning, Category::Eof) => Reason::Cut,
        (Reason::Beginning, Category::Data) => Reason::Kind,
        (Reason::Beginning, _) => Reason::Json,
        (empty, _) => empty,
    })
}

/// Returns the record of a line with these values.
pub fn record<'a>(fields: &[Field], values: &'a Values<'_>, last: &mut LastStamp) -> Result<Record<'a>, Reason> {
    let mut record = Record { client: b"-", endpoint: NO_ENDPOINT, ..Record::default() };
    let mut read = [false; 8];
    for (meaning, value) in fields.iter().map(|field| field.meaning).zip(values) {
        let column = column_of(meaning);
        if let Some(value) = value
            && !read[column]
        {
            read[column] = true;
            let bare = value.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
            match (meaning, &**value) {
                (Meaning::Stamp, text) => meaning.read(bare.unwrap_or(text), &mut record, last)?,
                (Meaning::Status, b"0") => {} // Caddy writes it for a client that left
                (_, text) => meaning.read(text, &mut record, last)?,
            }
        }
    }
    if read[..3] == [true; 3] { Ok(record) } else { Err(Reason::Missing) }
}

/// Returns the number of the column that a field fills. The first three are required.
fn column_of(meaning: Meaning) -> usize {
    match meaning {
        Meaning::Stamp | Meaning::Iso | Meaning::Epoch(_) => 0,
        Meaning::Request | Meaning::Target => 1,
        Meaning::Status => 2,
        Meaning::Client | Meaning::ClientAndPort => 3,
        Meaning::Size => 4,
        Meaning::Referrer => 5,
        Meaning::Agent => 6,
        _ => 7,
    }
}

/// An object in the line. Its keys begin at byte `depth` of the paths of the fields in `within`, one bit each.
struct Object<'f, 'v, 'a> {
    format: &'f LineFormat,
    within: u64,
    depth: usize,
    values: &'v mut Values<'a>,
}

impl<'de> DeserializeSeed<'de> for Object<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Object<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("an object")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        let Self { format, within, depth, values } = self;
        while let Some(found) = map.next_key_seed(Key { format, within, depth })? {
            match found {
                UnderKey::Value(place) => {
                    let is_number = format.fields[place].meaning.is_number();
                    map.next_value_seed(Value { slot: &mut values[place], is_number })?;
                }
                UnderKey::Object(0, _) => {
                    map.next_value::<IgnoredAny>()?;
                }
                UnderKey::Object(within, depth) => map.next_value_seed(Object { format, within, depth, values })?,
            }
        }
        Ok(())
    }
}

/// The target of a key: the value of a field, or an object with the values of some fields.
enum UnderKey {
    Value(usize),
    Object(u64, usize),
}

struct Key<'f> {
    format: &'f LineFormat,
    within: u64,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = UnderKey;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<UnderKey, D::Error> {
        reader.deserialize_bytes(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = UnderKey;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("a key")
    }

    fn visit_bytes<E>(self, key: &[u8]) -> Result<UnderKey, E> {
        let mut within = 0;
        let mut left = if self.depth == 0 { self.format.beginning_as(key) } else { self.within };
        while left != 0 {
            let place = left.trailing_zeros() as usize;
            left &= left - 1;
            if let Some(rest) = self.format.fields[place].before.as_bytes()[self.depth..].strip_prefix(key) {
                match rest.first() {
                    None => return Ok(UnderKey::Value(place)),
                    Some(0) => within |= 1 << place,
                    Some(_) => {}
                }
            }
        }
        Ok(UnderKey::Object(within, self.depth + key.len() + 1))
    }
}

/// The value of a field.
struct Value<'v, 'a> {
    slot: &'v mut Option<Cow<'a, [u8]>>,
    is_number: bool,
}

impl<'de> DeserializeSeed<'de> for Value<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        *self.slot = None;
        reader.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Value<'_, 'de> {
    type Value = ();

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("a text or a number")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        if !self.is_number {
            return reader.deserialize_bytes(self);
        }
        let text = <&RawValue>::deserialize(reader)?.get();
        let bare = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        self.visit_borrowed_bytes(bare.unwrap_or(text).as_bytes())
    }

    fn visit_borrowed_bytes<E: Error>(self, text: &'de [u8]) -> Result<(), E> {
        *self.slot = (!text.is_empty()).then_some(Cow::Borrowed(text));
        Ok(())
    }

    fn visit_bytes<E: Error>(self, text: &[u8]) -> Result<(), E> {
        *self.slot = (!text.is_empty()).then(|| Cow::Owned(text.to_vec()));
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut array: S) -> Result<(), S::Error> {
        array.next_element_seed(self)?;
        while array.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}
