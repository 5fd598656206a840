//! `drainq.columns`: access logs to columns, aggregates by key, and percentiles of sketches, over Arrow data.

mod access_log;
mod group_by;
mod percentile;

pub use access_log::parse_access_log;
pub use group_by::GroupBy;
pub use percentile::percentiles;
