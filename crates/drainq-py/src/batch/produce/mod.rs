//! The way of an item from a produce call into its partition.

pub mod fast_path;
pub mod gil_yield;
pub mod raw_method;
pub mod slow_path;
