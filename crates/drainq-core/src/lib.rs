//! The queues of drainq, in Rust alone.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`batch`] | the batch queue |
//! | [`ring`], [`table`] | its memory: a lock-free buffer, an append-only list |
//! | [`multi`] | the multi-queue: many keyed sub-queues behind one blocking get |
//! | [`sources`] | the set queue, which refuses what it already holds |
//! | [`sketch`] | quantiles of a stated relative error, from a sketch that merges |
//! | [`wait`] | waiting: idle drain threads, producers in front of a full partition, getters and putters |
//! | [`clock`] | time as a value that is handed in |
//! | [`sync`] | the only module that uses threads, atomics, locks and parking directly |

pub mod batch;
pub mod clock;
pub mod multi;
pub mod ring;
pub mod sketch;
pub mod sources;
pub mod sync;
pub mod table;
pub mod wait;

#[cfg(test)]
mod models;

/// The version of the workspace; it is written in the workspace's `Cargo.toml` alone.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
