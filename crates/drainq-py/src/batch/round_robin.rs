//! Round robin over the partitions of a queue: one after the other, for `PartitionSelector.round_robin()`.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of choices so far, which producers of all threads share.
#[derive(Default)]
pub struct RoundRobin(AtomicUsize);

impl RoundRobin {
    /// Returns the partition after the one that it returned last, of `count` partitions; partition 0 at first.
    pub fn next_of(&self, count: usize) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed) % count
    }
}
