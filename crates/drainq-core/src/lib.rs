//! The queues of drainq, in Rust alone.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`sync`] | the one door to threads, atomics, locks and parking |
//! | [`clock`] | time as a value handed in |
//! | [`sources`] | a queue that refuses what it already knows, for slow sources |

pub mod clock;
pub mod sources;
pub mod sync;

/// The version of the workspace, the only place where it is written being `Cargo.toml`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
