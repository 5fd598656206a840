//! A borrowed column: numbers or texts, and which places are valid.
//!
//! # Invariants
//! 1. All parts of a column have a place for each row, the first row's place being 0: Arrow's offsets are cut off.
//! 2. A text that does not lie in its bytes is an error of the producer: [`Text::get`] gives None, and nothing outside
//!    of the given slices is ever read.

use super::validity_bitmap::{Bits, ValidityBitmap};
use std::borrow::Cow;
use std::ops::Range;

/// Which rows of a column have a value.
#[derive(Clone, Debug)]
pub enum Validity<'a> {
    /// All of them.
    All,
    /// Those whose bit is set, in the producer's bitmap.
    Bits(Bits<'a>),
    /// Those whose bit is set, in a bitmap made here.
    Own(ValidityBitmap),
}

impl Validity<'_> {
    /// Whether a row has a value.
    #[inline]
    pub fn get(&self, row: usize) -> bool {
        match self {
            Self::All => true,
            Self::Bits(bits) => bits.get(row),
            Self::Own(bitmap) => bitmap.get(row),
        }
    }
}

/// Texts, or other pieces of bytes, of a column.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    /// Text `i` lies between `ends[i]` and `ends[i + 1]`.
    Small {
        /// One more than there are texts.
        ends: &'a [i32],
        /// The bytes of all texts.
        bytes: &'a [u8],
    },
    /// The same with wider numbers.
    Large {
        /// One more than there are texts.
        ends: &'a [i64],
        /// The bytes of all texts.
        bytes: &'a [u8],
    },
    /// Texts of up to 12 bytes lie in their view: length, bytes. A longer one's view says where: length, first four
    /// bytes, buffer, offset.
    Views {
        /// A view for each text.
        views: &'a [[u8; 16]],
        /// The bytes of the longer texts.
        buffers: Vec<&'a [u8]>,
    },
    /// Text `i` is number `places[i]` of others.
    Dictionary {
        /// For each row its place among the others; any number where the row has no value.
        places: Cow<'a, [i64]>,
        /// The others.
        texts: Box<Text<'a>>,
    },
}

impl<'a> Text<'a> {
    /// The text of a row; None if it does not lie in the bytes.
    #[inline]
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Small { ends, bytes } => between(bytes, *ends.get(row)?, *ends.get(row + 1)?),
            Self::Large { ends, bytes } => between(bytes, *ends.get(row)?, *ends.get(row + 1)?),
            Self::Views { views, buffers } => viewed(views.get(row)?, buffers),
            Self::Dictionary { places, texts } => texts.get(usize::try_from(*places.get(row)?).ok()?),
        }
    }

    /// The texts of these rows, an empty one where a row has none; the error is a row whose text does not lie in the bytes.
    pub fn of_rows(&self, rows: Range<usize>, validity: &Validity<'_>) -> Result<Vec<&[u8]>, usize> {
        match self {
            Self::Small { ends, bytes } => {
                texts(rows, validity, |row| between(bytes, *ends.get(row)?, *ends.get(row + 1)?))
            }
            Self::Large { ends, bytes } => {
                texts(rows, validity, |row| between(bytes, *ends.get(row)?, *ends.get(row + 1)?))
            }
            _ => texts(rows, validity, |row| self.get(row)),
        }
    }

    /// How many bytes the texts of these rows have at most; None if a text does not lie in the bytes.
    pub fn size(&self, rows: usize) -> Option<usize> {
        match self {
            Self::Small { bytes, ends } => Some(bytes.len() - usize::try_from(*ends.first()?).ok()?.min(bytes.len())),
            Self::Large { bytes, ends } => Some(bytes.len() - usize::try_from(*ends.first()?).ok()?.min(bytes.len())),
            _ => (0..rows).map(|row| self.get(row).map(<[u8]>::len)).sum(),
        }
    }
}

#[inline]
fn between<End: TryInto<usize>>(bytes: &[u8], begin: End, end: End) -> Option<&[u8]> {
    bytes.get(begin.try_into().ok()?..end.try_into().ok()?)
}

#[inline]
fn texts<'a>(
    rows: Range<usize>,
    validity: &Validity<'_>,
    of_row: impl Fn(usize) -> Option<&'a [u8]>,
) -> Result<Vec<&'a [u8]>, usize> {
    let mut texts = Vec::with_capacity(rows.len());
    for row in rows {
        texts.push(if validity.get(row) { of_row(row).ok_or(row)? } else { &[] });
    }
    Ok(texts)
}

fn viewed<'a>(view: &'a [u8; 16], buffers: &[&'a [u8]]) -> Option<&'a [u8]> {
    let number = |place: usize| {
        let bytes = view[place..].first_chunk().expect("a view has 16 bytes");
        usize::try_from(i32::from_le_bytes(*bytes)).ok()
    };
    let length = number(0)?;
    if length <= 12 {
        return view.get(4..4 + length);
    }
    let begin = number(12)?;
    buffers.get(number(8)?)?.get(begin..begin.checked_add(length)?)
}

/// The values of a column.
#[derive(Clone, Debug)]
pub enum Values<'a> {
    /// Whole numbers, days, times, truth values; those of 64 bits without a sign have the bits of one with.
    Ints(Cow<'a, [i64]>),
    /// Floating-point numbers.
    Floats(Cow<'a, [f64]>),
    /// Texts or bytes.
    Texts(Text<'a>),
}

/// What kind of values a column has; `format` is Arrow's for it, in the C data interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// Arrow's format, of the values where it is a dictionary; that of texts and bytes is `u` or `z`.
    pub format: String,
    /// How the values are kept here.
    pub kind: Kind,
}

/// How values are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// As [`Values::Ints`].
    Int {
        /// Bytes of a value in Arrow's buffer; 0: a bit.
        width: u8,
        /// Whether there is no sign.
        unsigned: bool,
        /// Whether it is a number, and no time or truth value.
        number: bool,
    },
    /// As [`Values::Floats`].
    Float {
        /// Bytes of a value in Arrow's buffer.
        width: u8,
    },
    /// As [`Values::Texts`].
    Text,
}

impl Type {
    /// The type of Arrow's format; None if values of it cannot be read here.
    pub fn of(format: &str) -> Option<Self> {
        let int = |width, unsigned, number| Kind::Int { width, unsigned, number };
        let (format, kind) = match format {
            "c" => (format, int(1, false, true)),
            "C" => (format, int(1, true, true)),
            "s" => (format, int(2, false, true)),
            "S" => (format, int(2, true, true)),
            "i" => (format, int(4, false, true)),
            "I" => (format, int(4, true, true)),
            "l" => (format, int(8, false, true)),
            "L" => (format, int(8, true, true)),
            "b" => (format, int(0, true, false)),
            "f" => (format, Kind::Float { width: 4 }),
            "g" => (format, Kind::Float { width: 8 }),
            "tdD" | "tts" | "ttm" => (format, int(4, false, false)),
            "tdm" | "ttu" | "ttn" | "tDs" | "tDm" | "tDu" | "tDn" => (format, int(8, false, false)),
            "u" | "U" | "vu" => ("u", Kind::Text),
            "z" | "Z" | "vz" => ("z", Kind::Text),
            _ if ["tss:", "tsm:", "tsu:", "tsn:"].iter().any(|unit| format.starts_with(unit)) => {
                (format, int(8, false, false))
            }
            _ => return None,
        };
        Some(Self { format: format.to_owned(), kind })
    }

    /// The type in words.
    pub fn name(&self) -> String {
        let known = match self.format.as_str() {
            "c" => "int8",
            "C" => "uint8",
            "s" => "int16",
            "S" => "uint16",
            "i" => "int32",
            "I" => "uint32",
            "l" => "int64",
            "L" => "uint64",
            "b" => "bool",
            "f" => "float32",
            "g" => "float64",
            "tdD" => "date32",
            "tdm" => "date64",
            "u" => "string",
            "z" => "binary",
            format if format.starts_with("ts") => return format!("timestamp ({format})"),
            format if format.starts_with("tt") => return format!("time ({format})"),
            format => return format!("duration ({format})"),
        };
        known.to_owned()
    }
}

/// A column of a batch.
#[derive(Clone, Debug)]
pub struct Column<'a> {
    /// What kind of values.
    pub kind: Type,
    /// Rows.
    pub length: usize,
    /// The values; where a row is not valid, anything.
    pub values: Values<'a>,
    /// Which rows have a value.
    pub validity: Validity<'a>,
}
