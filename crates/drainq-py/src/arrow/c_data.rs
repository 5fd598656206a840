//! The structs of Arrow's C data interface, field by field.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// A type, with the types of its children.
#[repr(C)]
pub struct ArrowSchema {
    pub format: *const c_char,
    pub name: *const c_char,
    pub metadata: *const c_char,
    pub flags: i64,
    pub n_children: i64,
    pub children: *mut *mut ArrowSchema,
    pub dictionary: *mut ArrowSchema,
    pub release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    pub private_data: *mut c_void,
}

/// Values, with those of their children.
#[repr(C)]
pub struct ArrowArray {
    pub length: i64,
    pub null_count: i64,
    pub offset: i64,
    pub n_buffers: i64,
    pub n_children: i64,
    pub buffers: *mut *const c_void,
    pub children: *mut *mut ArrowArray,
    pub dictionary: *mut ArrowArray,
    pub release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    pub private_data: *mut c_void,
}

/// A sequence of arrays of one type.
#[repr(C)]
pub struct ArrowArrayStream {
    pub get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    pub get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    pub get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    pub release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    pub private_data: *mut c_void,
}

/// `ArrowSchema.flags`: values may be missing.
pub const NULLABLE: i64 = 2;

/// A struct of the interface: knows its name in a capsule, its released state, and how it is released.
pub trait Struct: Sized {
    /// The name of a capsule that holds one.
    const CAPSULE: &'static std::ffi::CStr;
    /// Makes a value without content, which has nothing to release.
    fn empty() -> Self;
    /// Whether there is nothing to release.
    fn is_released(&self) -> bool;
    /// Releases the content; nothing if there is none.
    fn release(&mut self);
}

macro_rules! implement {
    ($name:ident, $capsule:literal, { $($field:ident: $value:expr),* $(,)? }) => {
        impl Struct for $name {
            const CAPSULE: &'static std::ffi::CStr = $capsule;

            fn empty() -> Self {
                Self { $($field: $value,)* release: None, private_data: ptr::null_mut() }
            }

            fn is_released(&self) -> bool {
                self.release.is_none()
            }

            fn release(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: rule 1: it is there, so the struct was not released yet, and it sets itself to null.
                    unsafe { release(self) };
                    self.release = None;
                }
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                self.release();
            }
        }

        // SAFETY: rules 2 and 4: what a struct points to does not change, and any thread may release it.
        unsafe impl Send for $name {}
        // SAFETY: rule 2; a shared reference only reads.
        unsafe impl Sync for $name {}
    };
}

implement!(ArrowSchema, c"arrow_schema", {
    format: ptr::null(), name: ptr::null(), metadata: ptr::null(), flags: 0, n_children: 0, children: ptr::null_mut(),
    dictionary: ptr::null_mut(),
});
implement!(ArrowArray, c"arrow_array", {
    length: 0, null_count: 0, offset: 0, n_buffers: 0, n_children: 0, buffers: ptr::null_mut(),
    children: ptr::null_mut(), dictionary: ptr::null_mut(),
});
implement!(ArrowArrayStream, c"arrow_array_stream", {
    get_schema: None, get_next: None, get_last_error: None,
});
