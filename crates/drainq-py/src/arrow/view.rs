//! From imported structs to borrowed columns of the core: the one place that reads producers' memory.
//!
//! # Invariants
//! 1. A view borrows the structs, so what it points to is valid for as long as the view (rule 2 of the interface).
//! 2. Offset and length are not negative and do not wrap, before a buffer is looked at.

use super::c_data::{ArrowArray, ArrowSchema};
use crate::arrow::import::Imported;
use drainq_core::columns::column::{Column, Kind, Text, Type, Validity, Values};
use drainq_core::columns::validity_bitmap::{Bits, ValidityBitmap};
use std::borrow::Cow;
use std::ffi::CStr;
use std::slice;

/// Why a column cannot be read.
#[derive(Debug)]
pub enum Unreadable {
    /// There is no column of this name.
    Missing(String),
    /// There is more than one column of this name.
    Twice(String),
    /// The column has a type that is not read here: column, Arrow's format.
    Type(String, String),
    /// What was given is no record batch: its format.
    NoBatch(String),
    /// The structs are not as the interface wants them.
    Broken(&'static str),
}

/// Rows of an array: where they begin in its buffers, and how many they are.
#[derive(Clone, Copy)]
struct Rows {
    offset: usize,
    length: usize,
}

/// A batch's rows, and its children by name.
pub struct ImportedBatch<'a> {
    schema: &'a ArrowSchema,
    array: &'a ArrowArray,
    rows: Rows,
}

/// Returns the record batches of imported arrays.
pub fn batches(imported: &Imported) -> Result<Vec<ImportedBatch<'_>>, Unreadable> {
    let format = text(imported.schema.format).ok_or(Unreadable::Broken("a type without a format"))?;
    if format != "+s" {
        return Err(Unreadable::NoBatch(format.to_owned()));
    }
    let batch = |array| Ok(ImportedBatch { schema: &imported.schema, array, rows: rows(array)? });
    imported.arrays.iter().map(|array| batch(array).and_then(ImportedBatch::checked)).collect()
}

/// Returns the columns of imported arrays that are no record batches.
pub fn columns<'a>(name: &str, imported: &'a Imported) -> Result<Vec<Column<'a>>, Unreadable> {
    imported.arrays.iter().map(|array| column(name, &imported.schema, array, rows(array)?)).collect()
}

impl<'a> ImportedBatch<'a> {
    fn checked(self) -> Result<Self, Unreadable> {
        let children = usize::try_from(self.array.n_children).ok();
        if children.is_none() || self.array.n_children != self.schema.n_children {
            return Err(Unreadable::Broken("a batch that has not the columns of its type"));
        }
        if validity(self.array, self.rows)?.is_some() {
            return Err(Unreadable::Broken("a struct with missing rows is no record batch"));
        }
        Ok(self)
    }

    /// Returns how many rows there are.
    pub fn rows(&self) -> usize {
        self.rows.length
    }

    /// Whether there is a column of this name.
    pub fn has(&self, name: &str) -> bool {
        self.places(name).next().is_some()
    }

    fn places(&self, name: &str) -> impl Iterator<Item = usize> {
        (0..self.schema.n_children as usize)
            .filter(move |place| child(self.schema.children, *place).and_then(|schema| text(schema.name)) == Some(name))
    }

    /// Returns the column of this name.
    pub fn column(&self, name: &str) -> Result<Column<'a>, Unreadable> {
        let mut places = self.places(name);
        let place = places.next().ok_or_else(|| Unreadable::Missing(name.to_owned()))?;
        if places.next().is_some() {
            return Err(Unreadable::Twice(name.to_owned()));
        }
        let parts = child(self.schema.children, place).zip(child(self.array.children, place));
        let (schema, array) = parts.ok_or(Unreadable::Broken("a batch without its columns"))?;
        let own = rows(array)?;
        let last = self.rows.offset.checked_add(self.rows.length);
        if last.is_none_or(|last| last > own.length) {
            return Err(Unreadable::Broken("a column that is shorter than its batch"));
        }
        column(name, schema, array, Rows { offset: own.offset + self.rows.offset, length: self.rows.length })
    }
}

/// Returns child `place` of an array or type that has more children than that.
fn child<'a, T>(children: *mut *mut T, place: usize) -> Option<&'a T> {
    if children.is_null() {
        return None;
    }
    // SAFETY: the caller has compared the place with the number of children; rule 2.
    unsafe { (*children.add(place)).as_ref() }
}

fn text<'a>(text: *const std::ffi::c_char) -> Option<&'a str> {
    // SAFETY: rule 2: where it is not null it is a text that ends with a zero byte.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }).and_then(|text| text.to_str().ok())
}

fn rows(array: &ArrowArray) -> Result<Rows, Unreadable> {
    const MOST: usize = isize::MAX as usize / 32;
    match (usize::try_from(array.offset), usize::try_from(array.length)) {
        (Ok(offset), Ok(length)) if offset < MOST && length < MOST => Ok(Rows { offset, length }),
        _ => Err(Unreadable::Broken("an array with a negative or impossible length")),
    }
}

/// Returns buffer `place` of an array as `count` values of a type; null where no byte is needed.
fn buffer<T>(array: &ArrowArray, place: usize, count: usize) -> Result<&[T], Unreadable> {
    if count == 0 {
        return Ok(&[]);
    }
    let missing = Unreadable::Broken("an array that lacks a buffer");
    if array.buffers.is_null() || usize::try_from(array.n_buffers).is_ok_and(|buffers| place >= buffers) {
        return Err(missing);
    }
    // SAFETY: there are more than `place` buffers.
    let pointer = unsafe { *array.buffers.add(place) }.cast::<T>();
    if pointer.is_null() {
        return Err(missing);
    }
    if !pointer.is_aligned() {
        return Err(Unreadable::Broken("a buffer that is not aligned to its values"));
    }
    // SAFETY: rule 3: the callers ask for no more than offset + length places; rule 2: for as long as the array is
    // borrowed, and unchanged. Every bit pattern is a value of the types that are asked for.
    Ok(unsafe { slice::from_raw_parts(pointer, count) })
}

/// Returns the bitmap of an array; None if all rows are valid.
fn validity(array: &ArrowArray, rows: Rows) -> Result<Option<Bits<'_>>, Unreadable> {
    let no_bitmap = array.n_buffers < 1
        || array.buffers.is_null()
        // SAFETY: there is at least one buffer.
        || unsafe { *array.buffers }.is_null();
    if array.null_count == 0 || no_bitmap || rows.length == 0 {
        return Ok(None);
    }
    let bytes = buffer::<u8>(array, 0, (rows.offset + rows.length).div_ceil(8))?;
    Ok(Some(Bits::new(bytes, rows.offset)))
}

fn column<'a>(
    name: &str,
    schema: &'a ArrowSchema,
    array: &'a ArrowArray,
    rows: Rows,
) -> Result<Column<'a>, Unreadable> {
    let format = text(schema.format).ok_or(Unreadable::Broken("a type without a format"))?;
    if let Some(dictionary) = child_of(schema.dictionary) {
        let Some(values) = child_of(array.dictionary) else {
            return Err(Unreadable::Broken("a dictionary column without a dictionary"));
        };
        let all = column(name, dictionary, values, self::rows(values)?)?;
        return indexed(name, format, array, rows, all);
    }
    let Some(kind) = Type::of(format) else { return Err(Unreadable::Type(name.to_owned(), format.to_owned())) };
    let values = values(&kind, format, array, rows)?;
    let validity = validity(array, rows)?.map_or(Validity::All, Validity::Bits);
    Ok(Column { kind, length: rows.length, values, validity })
}

fn child_of<'a, T>(pointer: *mut T) -> Option<&'a T> {
    // SAFETY: rule 2: where it is not null it points to a struct.
    unsafe { pointer.as_ref() }
}

/// Returns the slice of a buffer that belongs to the rows.
fn of_rows<T>(array: &ArrowArray, place: usize, rows: Rows) -> Result<&[T], Unreadable> {
    Ok(buffer::<T>(array, place, rows.offset + rows.length)?.get(rows.offset..).unwrap_or_default())
}

fn values<'a>(kind: &Type, format: &str, array: &'a ArrowArray, rows: Rows) -> Result<Values<'a>, Unreadable> {
    fn wide<'a, T: Copy + Into<i64> + 'a>(array: &'a ArrowArray, rows: Rows) -> Result<Cow<'a, [i64]>, Unreadable> {
        Ok(of_rows::<T>(array, 1, rows)?.iter().map(|value| (*value).into()).collect())
    }
    Ok(match kind.kind {
        Kind::Int { width: 0, .. } => {
            let bytes = buffer::<u8>(array, 1, (rows.offset + rows.length).div_ceil(8))?;
            let bits = Bits::new(bytes, rows.offset);
            Values::Ints((0..rows.length).map(|row| i64::from(bits.get(row))).collect())
        }
        Kind::Int { width, unsigned, .. } => Values::Ints(match (width, unsigned) {
            (1, false) => wide::<i8>(array, rows)?,
            (1, true) => wide::<u8>(array, rows)?,
            (2, false) => wide::<i16>(array, rows)?,
            (2, true) => wide::<u16>(array, rows)?,
            (4, false) => wide::<i32>(array, rows)?,
            (4, true) => wide::<u32>(array, rows)?,
            _ => Cow::Borrowed(of_rows::<i64>(array, 1, rows)?),
        }),
        Kind::Float { width: 4 } => {
            Values::Floats(of_rows::<f32>(array, 1, rows)?.iter().map(|value| f64::from(*value)).collect())
        }
        Kind::Float { .. } => Values::Floats(Cow::Borrowed(of_rows::<f64>(array, 1, rows)?)),
        Kind::Text => Values::Texts(texts(format, array, rows)?),
    })
}

fn texts<'a>(format: &str, array: &'a ArrowArray, rows: Rows) -> Result<Text<'a>, Unreadable> {
    if rows.length == 0 {
        return Ok(Text::Small { ends: &[0], bytes: &[] });
    }
    let with_one_more = Rows { length: rows.length + 1, ..rows };
    let size = |last: Option<usize>| last.ok_or(Unreadable::Broken("texts that end before they begin"));
    Ok(match format {
        "u" | "z" => {
            let ends = of_rows::<i32>(array, 1, with_one_more)?;
            let last = size(ends.last().and_then(|last| usize::try_from(*last).ok()))?;
            Text::Small { ends, bytes: buffer(array, 2, last)? }
        }
        "U" | "Z" => {
            let ends = of_rows::<i64>(array, 1, with_one_more)?;
            let last = size(ends.last().and_then(|last| usize::try_from(*last).ok()))?;
            Text::Large { ends, bytes: buffer(array, 2, last)? }
        }
        _ => {
            let count = usize::try_from(array.n_buffers).ok().and_then(|buffers| buffers.checked_sub(3));
            let count = count.ok_or(Unreadable::Broken("an array that lacks a buffer"))?;
            let sizes = buffer::<i64>(array, count + 2, count)?;
            let sized = sizes.iter().enumerate().map(|(place, bytes)| {
                let bytes = usize::try_from(*bytes).map_err(|_| Unreadable::Broken("a buffer of negative size"))?;
                buffer::<u8>(array, place + 2, bytes)
            });
            Text::Views { views: of_rows(array, 1, rows)?, buffers: sized.collect::<Result<_, _>>()? }
        }
    })
}

/// Returns the rows of a dictionary column: each row's value is the one at its index.
fn indexed<'a>(
    name: &str,
    format: &str,
    array: &'a ArrowArray,
    rows: Rows,
    all: Column<'a>,
) -> Result<Column<'a>, Unreadable> {
    let kind = Type::of(format).filter(|kind| matches!(kind.kind, Kind::Int { number: true, .. }));
    let Some(kind) = kind else { return Err(Unreadable::Type(name.to_owned(), format.to_owned())) };
    let Values::Ints(mut places) = values(&kind, format, array, rows)? else {
        return Err(Unreadable::Broken("the indices of a dictionary are whole numbers"));
    };
    let bits = validity(array, rows)?;
    let mut valid = ValidityBitmap::with_capacity(rows.length);
    for (row, index) in places.iter().enumerate() {
        let is_valid = bits.is_none_or(|bits| bits.get(row));
        let inside = usize::try_from(*index).is_ok_and(|index| index < all.length);
        if is_valid && !inside {
            return Err(Unreadable::Broken("an index beyond the end of its dictionary"));
        }
        valid.push(is_valid && all.validity.get(*index as usize));
    }
    if valid.zeros() > 0 {
        // What a missing row points to is anything.
        let own = places.to_mut();
        (0..rows.length).filter(|row| !valid.get(*row)).for_each(|row| own[row] = 0);
    }
    let at = |row: usize| places[row] as usize;
    let values = match &all.values {
        // An empty dictionary has no value for the rows, all of which are missing.
        Values::Ints(values) => {
            Values::Ints((0..rows.length).map(|row| values.get(at(row)).copied().unwrap_or_default()).collect())
        }
        Values::Floats(values) => {
            Values::Floats((0..rows.length).map(|row| values.get(at(row)).copied().unwrap_or_default()).collect())
        }
        Values::Texts(texts) => Values::Texts(Text::Dictionary { places, texts: Box::new(texts.clone()) }),
    };
    Ok(Column { kind: all.kind, length: rows.length, values, validity: Validity::Own(valid) })
}
