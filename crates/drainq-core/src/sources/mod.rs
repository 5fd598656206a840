//! The set queue, which stands in front of a slow source and refuses entries that it already holds.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`identity_table`] | the entries by identity |
//! | [`set_queue`] | order, identity and state of the entries, in one structure |

pub mod identity_table;
pub mod set_queue;
