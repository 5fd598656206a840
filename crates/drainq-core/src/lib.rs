//! The queues of drainq, in Rust alone.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`sync`] | the one door to threads, atomics, locks and parking |
//! | [`clock`] | time as a value handed in |
//! | [`multi`] | many keyed queues behind one blocking head |

pub mod clock;
pub mod multi;
pub mod sync;

/// The version of the workspace, the only place where it is written being `Cargo.toml`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
