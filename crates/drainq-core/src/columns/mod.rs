//! Work on columns: batches of values in Arrow's layout.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`access_log`] | lines of access logs to columns |
//! | [`validity_bitmap`] | which places of a column are valid |

pub mod access_log;
pub mod validity_bitmap;
