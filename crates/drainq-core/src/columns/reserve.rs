//! How the columns of a result grow while the number of groups is not known.
//!
//! A vector that doubles touches more than twice the memory that it fills, and most of what many small groups cost is
//! that the kernel maps that memory page by page. So vectors grow in larger steps here. Room that was not yet
//! written to has no pages.

/// Up to this many bytes a vector grows to eight times its size, beyond to twice its size.
const LARGE: usize = 4 << 20;

/// Makes room for `more` values.
#[inline]
pub fn reserve<T>(values: &mut Vec<T>, more: usize) {
    if values.capacity() - values.len() < more {
        let factor = if size_of_val(values.as_slice()) < LARGE { 8 } else { 2 };
        values.reserve_exact(more.max(values.len() * (factor - 1)));
    }
}
