//! From columns of ours to structs of Arrow's C data interface.
//!
//! # Invariants
//! 1. A struct that is handed out keeps its own share of the batch, so the batch may be exported often, and each
//!    struct may live for as long as its consumer likes.
//! 2. The private data of a struct is a box that its `release` alone opens, once (rule 1 of the interface).

use super::c_data::{ArrowArray, ArrowArrayStream, ArrowSchema, NULLABLE, Struct};
use drainq_core::columns::text_ends::TextEnds;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

/// The buffers of a column, without its validity; those of groups are shared with them.
pub enum Data {
    /// No value: of a column without rows whose type is not known.
    None,
    /// Truth values, eight in a byte.
    Bits(Vec<u8>),
    /// Values of one byte.
    Int8(Vec<i8>),
    /// Values of two bytes.
    Int16(Vec<i16>),
    /// Values of four bytes.
    Int32(Vec<i32>),
    /// Values of eight bytes.
    Int64(Arc<Vec<i64>>),
    /// Floats of four bytes.
    Float32(Vec<f32>),
    /// Floats of eight bytes.
    Float64(Arc<Vec<f64>>),
    /// Texts: their ends, and their bytes.
    Texts(TextEnds, Arc<Vec<u8>>),
}

impl Data {
    fn buffers(&self) -> Vec<*const c_void> {
        fn of<T>(values: &[T]) -> *const c_void {
            values.as_ptr().cast()
        }
        match self {
            Self::None => Vec::new(),
            Self::Bits(values) => vec![of(values)],
            Self::Int8(values) => vec![of(values)],
            Self::Int16(values) => vec![of(values)],
            Self::Int32(values) => vec![of(values)],
            Self::Int64(values) => vec![of(values)],
            Self::Float32(values) => vec![of(values)],
            Self::Float64(values) => vec![of(values)],
            Self::Texts(TextEnds::Small(ends), bytes) => vec![of(ends), of(bytes)],
            Self::Texts(TextEnds::Large(ends), bytes) => vec![of(ends), of(bytes)],
        }
    }
}

/// A column of a batch.
pub struct ExportedColumn {
    /// Its name.
    pub name: String,
    /// Arrow's format.
    pub format: String,
    /// Which rows have a value, and how many have none; None: all have one.
    pub validity: Option<(Vec<u8>, usize)>,
    /// The values.
    pub data: Data,
}

/// Columns of the same length.
pub struct ExportedBatch {
    /// Rows.
    pub rows: usize,
    /// The columns.
    pub columns: Vec<ExportedColumn>,
}

struct SchemaContent {
    _format: CString,
    _name: CString,
    children: Vec<*mut ArrowSchema>,
}

struct ArrayContent {
    _batch: Arc<ExportedBatch>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
}

struct StreamContent {
    batch: Arc<ExportedBatch>,
    ended: bool,
}

/// Returns the type of a batch.
pub fn schema(batch: &ExportedBatch) -> ArrowSchema {
    let child = |column: &ExportedColumn| Box::into_raw(Box::new(one_schema(&column.format, &column.name, Vec::new())));
    one_schema("+s", "", batch.columns.iter().map(child).collect())
}

fn one_schema(format: &str, name: &str, children: Vec<*mut ArrowSchema>) -> ArrowSchema {
    // A name cannot hold the zero byte that ends it; formats have none.
    let text = |text: &str| CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default();
    let (format, name) = (text(format), text(name));
    let mut content = Box::new(SchemaContent { children, _format: format, _name: name });
    let mut made = ArrowSchema::empty();
    made.format = content._format.as_ptr();
    made.name = content._name.as_ptr();
    made.flags = NULLABLE;
    made.n_children = content.children.len() as i64;
    made.children = content.children.as_mut_ptr();
    made.release = Some(release_schema);
    made.private_data = Box::into_raw(content).cast();
    made
}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: invariant 2, and rule 1: the consumer releases a struct that is alive, once. A child that the consumer took
    // over has no release any more.
    unsafe {
        let content = Box::from_raw((*schema).private_data.cast::<SchemaContent>());
        content.children.iter().for_each(|child| drop(Box::from_raw(*child)));
        (*schema).release = None;
    }
}

/// Returns the values of a batch.
pub fn array(batch: &Arc<ExportedBatch>) -> ArrowArray {
    let child = |column: &ExportedColumn| {
        let (bitmap, missing) =
            column.validity.as_ref().map_or((ptr::null(), 0), |(bitmap, missing)| (bitmap.as_ptr().cast(), *missing));
        let mut buffers = column.data.buffers();
        if !matches!(column.data, Data::None) {
            buffers.insert(0, bitmap);
        }
        Box::into_raw(Box::new(one_array(batch, missing, buffers, Vec::new())))
    };
    let children = batch.columns.iter().map(child).collect();
    one_array(batch, 0, vec![ptr::null()], children)
}

fn one_array(
    batch: &Arc<ExportedBatch>,
    missing: usize,
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
) -> ArrowArray {
    let mut content = Box::new(ArrayContent { _batch: batch.clone(), buffers, children });
    let mut made = ArrowArray::empty();
    made.length = batch.rows as i64;
    made.null_count = missing as i64;
    made.n_buffers = content.buffers.len() as i64;
    made.n_children = content.children.len() as i64;
    made.buffers = content.buffers.as_mut_ptr();
    made.children = content.children.as_mut_ptr();
    made.release = Some(release_array);
    made.private_data = Box::into_raw(content).cast();
    made
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: as for a schema.
    unsafe {
        let content = Box::from_raw((*array).private_data.cast::<ArrayContent>());
        content.children.iter().for_each(|child| drop(Box::from_raw(*child)));
        (*array).release = None;
    }
}

/// Returns a stream of the one batch.
pub fn stream(batch: &Arc<ExportedBatch>) -> ArrowArrayStream {
    let mut made = ArrowArrayStream::empty();
    made.get_schema = Some(stream_schema);
    made.get_next = Some(stream_next);
    made.get_last_error = Some(stream_error);
    made.release = Some(release_stream);
    made.private_data = Box::into_raw(Box::new(StreamContent { batch: batch.clone(), ended: false })).cast();
    made
}

unsafe extern "C" fn stream_schema(stream: *mut ArrowArrayStream, to: *mut ArrowSchema) -> c_int {
    // SAFETY: invariant 2; the consumer gives a stream that is alive, and room for a struct without content.
    unsafe { ptr::write(to, schema(&(*(*stream).private_data.cast::<StreamContent>()).batch)) };
    0
}

unsafe extern "C" fn stream_next(stream: *mut ArrowArrayStream, to: *mut ArrowArray) -> c_int {
    // SAFETY: as above; calls of one stream do not overlap.
    unsafe {
        let content = &mut *(*stream).private_data.cast::<StreamContent>();
        let next = if content.ended { ArrowArray::empty() } else { array(&content.batch) };
        content.ended = true;
        ptr::write(to, next);
    }
    0
}

unsafe extern "C" fn stream_error(_stream: *mut ArrowArrayStream) -> *const c_char {
    ptr::null()
}

unsafe extern "C" fn release_stream(stream: *mut ArrowArrayStream) {
    // SAFETY: as for a schema.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<StreamContent>()));
        (*stream).release = None;
    }
}
