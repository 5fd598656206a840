//! The queues of drainq, in Rust alone.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`batch`] | the batch queue |
//! | [`ring`], [`table`] | its memory: a lock-free buffer, an append-only list |
//! | [`park`], [`space`] | its waiting: idle drain threads, producers in front of a full partition |
//! | [`word`] | items as one machine word |
//! | [`sync`] | the one door to threads, atomics, locks and parking |
//! | [`clock`] | time as a value handed in |
//! | [`sources`] | a queue that refuses what it already knows, for slow sources |
//! | [`multi`] | many keyed queues behind one blocking head |

pub mod batch;
pub mod clock;
pub mod multi;
pub mod park;
pub mod ring;
pub mod sources;
pub mod space;
pub mod sync;
pub mod table;
pub mod word;

#[cfg(test)]
mod models;

/// The version of the workspace, the only place where it is written being `Cargo.toml`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
