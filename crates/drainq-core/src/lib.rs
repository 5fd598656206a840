//! The queues of drainq, in pure Rust.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`batch`] | the batch queue |
//! | [`ring`], [`append_only_table`] | its memory: a lock-free buffer of words or small structs, an append-only list |
//! | [`multi`] | the multi-queue: many keyed sub-queues behind one blocking get |
//! | [`sources`] | the set queue, which refuses what it already holds |
//! | [`access_log`] | lines of access logs to columns |
//! | [`sketch`] | quantiles of a stated relative error, from a sketch that merges |
//! | [`wait`] | waiting: idle drain threads, producers in front of a full partition, getters and putters |
//! | [`clock`] | time as a value that is handed in |
//! | [`sync`] | the only module that uses threads, atomics, locks and parking directly |
//!
//! # Example
//!
//! A small struct needs no allocation: it lies in the ring.
//!
//! ```
//! use drainq_core::batch::running::Running;
//! use drainq_core::batch::{BatchQueue, Grouping, Key, Keyed, Settings};
//! use drainq_core::ring::{Inline, RingItem};
//!
//! struct Hit { key: Key, bytes: u64 }
//! impl Keyed for Hit { fn key(&self) -> Key { self.key } }
//! impl RingItem for Hit { type Slot = Inline<Self>; }
//!
//! let running = Running::start(BatchQueue::new("hits", Settings::new(1), Grouping::ByKey));
//! let key = running.add_handler(1.0, |batch: &mut Vec<Hit>| {
//!     println!("{} bytes", batch.iter().map(|hit| hit.bytes).sum::<u64>());
//! });
//! assert!(running.queue().try_produce(Hit { key, bytes: 512 }).is_ok());
//! running.shutdown(); // handles what was accepted
//! ```
//!
//! # How does it work?
//!
//! A producer pushes an item into the ring of the item's partition ([`batch::produce`]) and wakes the drain thread of
//! that partition if the thread sleeps ([`wait::sleeper`]). The drain thread takes what its partitions hold
//! ([`batch::drain_take`]), groups it by type ([`batch::drain_group`]) and hands each group to a handler
//! ([`batch::Pass`]). A balancer moves partitions between threads; one word per partition says which thread owns it
//! ([`batch::partition_handoff`]).
//!
//! # Trade-offs
//!
//! - The items of one type keep their order, and one thread at a time handles them. There is no order between types.
//! - Capacity is per partition. A partition that is full blocks its own producers, or refuses their items, while others
//!   have room.
//! - While items are frequent, a drain thread naps before it falls idle. So items are handled in batches, by default up
//!   to [`batch::config::MIN_IDLE`] late.
//! - Producers share no counter of accepted items. The number is read from the rings, so a snapshot of all counters
//!   takes the locks of all drain threads.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod access_log;
pub mod append_only_table;
pub mod batch;
pub mod clock;
pub mod multi;
pub mod ring;
pub mod sketch;
pub mod sources;
pub mod sync;
pub mod wait;

#[cfg(test)]
mod models;

/// The version of the workspace. It is written only in the workspace's `Cargo.toml`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
