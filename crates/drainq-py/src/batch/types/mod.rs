//! Objects as ring items, and types as numbers.

pub mod address_map;
pub mod item;
pub mod keys;
