//! `drainq.columns`: access logs to columns, and aggregates by key, over Arrow data.

mod access_log;
mod group_by;

pub use access_log::parse_access_log;
pub use group_by::GroupBy;
