//! The set queue, which stands in front of a slow source and refuses entries that it already holds.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`set_queue`] | order and identity of the entries, in one structure |

pub mod set_queue;
