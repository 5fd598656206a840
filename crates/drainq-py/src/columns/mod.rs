//! The native work of `drainq.columns`, over plain bytes: access logs to columns, and columns of sketches.
//!
//! `python/drainq/columns` passes the buffers of Arrow arrays, and makes Arrow arrays of the results. So nothing here
//! uses Arrow's interfaces.

mod access_log;
mod sketches;

pub use access_log::read_access_log;
pub use sketches::{check_sketches, merge_sketches, sketch_lists, sketch_percentiles};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Copies numbers into a Python `bytes`, in the machine's byte order.
fn to_bytes<'py, T: Copy, const N: usize>(
    py: Python<'py>,
    values: &[T],
    bytes: fn(T) -> [u8; N],
) -> Bound<'py, PyBytes> {
    let copied = PyBytes::new_with(py, values.len() * N, |to| {
        to.as_chunks_mut().0.iter_mut().zip(values).for_each(|(to, value)| *to = bytes(*value));
        Ok(())
    });
    copied.expect("copying does not fail")
}
