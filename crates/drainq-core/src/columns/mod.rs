//! Work on columns: batches of values in Arrow's layout, read where they lie.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`column`] | a borrowed column: numbers or texts, and which places are valid |
//! | [`text_ends`] | where texts end, in the width that Arrow's type has |
//! | [`validity_bitmap`] | validity, owned and borrowed |
//! | [`access_log`] | lines of access logs to columns |
//! | [`group_by`] | aggregates by key |
//! | `reserve` | how the columns of a result grow |
//!
//! This crate knows the layout and not Arrow's C interface, which is the binding's business.

pub mod access_log;
pub mod column;
pub mod group_by;
mod reserve;
pub mod text_ends;
pub mod validity_bitmap;
