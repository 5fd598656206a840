//! The settings of a batch queue, their defaults and their validation.
//!
//! Source: `BatchQueueConfig` and `PartitionPolicy` in SkyWalking's `library-batch-queue`.

use crate::ring::MAX_CAPACITY;
use std::time::Duration;

/// The most drain threads of one queue or scheduler. A thread number has 16 bits.
pub const MAX_THREADS: usize = 4_096;
/// The most partitions of one queue.
pub const MAX_PARTITIONS: usize = 1 << 20;

/// The default capacity of a partition, in items.
pub const BUFFER_SIZE: usize = 10_000;
/// The most items of a partition, a queue or a handler call.
pub const MAX_BUFFER_SIZE: usize = MAX_CAPACITY;
/// The largest weight of an item, so that no 64-bit counter ever wraps.
pub const MAX_WEIGHT: u64 = (1 << 31) - 1;
/// The default limit of the items that one handler call gets.
pub const MAX_BATCH: usize = 8_192;
/// The default length of the nap after an empty pass, and of the shortest sleep of the idle back-off.
pub const MIN_IDLE: Duration = Duration::from_millis(1);
/// The default length of the longest sleep of the idle back-off.
pub const MAX_IDLE: Duration = Duration::from_millis(50);
/// The time for which the end of a process waits for a queue without a shutdown timeout.
pub const EXIT_TIMEOUT: Duration = Duration::from_secs(30);
/// The time between two plans of the balancer.
pub const REBALANCE_INTERVAL: Duration = Duration::from_secs(10);

/// The action of a producer whose partition is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BufferStrategy {
    /// Wait for room.
    Blocking,
    /// Give the item back at once.
    IfPossible,
}

/// The rule for the number of partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartitionPolicy {
    /// This many partitions.
    Fixed(usize),
    /// This many partitions per thread.
    ThreadMultiply(usize),
    /// One per unit of handler weight up to this many per thread, and half a partition for each unit above.
    Adaptive(usize),
}

/// The settings of a batch queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The number of drain threads, 1 to [`MAX_THREADS`].
    pub threads: usize,
    /// The number of partitions.
    pub partitions: PartitionPolicy,
    /// Items per partition.
    pub buffer_size: usize,
    /// The capacity of all partitions together, 1 to [`MAX_BUFFER_SIZE`]; `None` if only each partition has a capacity.
    pub capacity: Option<usize>,
    /// The action of a producer whose partition is full.
    pub strategy: BufferStrategy,
    /// The length of the nap after an empty pass, and of the shortest sleep of the idle back-off. Zero is no nap.
    pub min_idle: Duration,
    /// The longest sleep of the idle back-off.
    pub max_idle: Duration,
    /// The nap before an idle thread takes the first item, so that items gather. Zero is no nap.
    pub linger: Duration,
    /// The most items that one handler call gets.
    pub max_batch: usize,
    /// Whether items have weights. Capacities and counters are then in weights.
    pub weighed: bool,
    /// Whether an item's partition depends only on its key and never changes.
    pub sticky: bool,
}

impl Settings {
    /// Makes the default settings, with this number of threads.
    pub fn new(threads: usize) -> Self {
        Self {
            threads,
            partitions: PartitionPolicy::Fixed(1),
            buffer_size: BUFFER_SIZE,
            capacity: None,
            strategy: BufferStrategy::Blocking,
            min_idle: MIN_IDLE,
            max_idle: MAX_IDLE,
            linger: Duration::ZERO,
            weighed: false,
            max_batch: MAX_BATCH,
            sticky: true,
        }
    }

    /// Checks the settings. Returns an error message if a setting is not valid.
    pub fn validate(&self) -> Result<(), String> {
        if !(1..=MAX_THREADS).contains(&self.threads) {
            return Err(format!("threads must be between 1 and {MAX_THREADS}, got {}", self.threads));
        }
        let capacity = self.capacity.unwrap_or(MAX_BUFFER_SIZE);
        for (name, value) in [("buffer_size", self.buffer_size), ("capacity", capacity), ("max_batch", self.max_batch)]
        {
            if value < 1 {
                return Err(format!("{name} must be at least 1 item, got {value}"));
            }
            if value > MAX_BUFFER_SIZE {
                return Err(format!("{name} must be at most {MAX_BUFFER_SIZE} items, got {value}"));
            }
        }
        if self.max_idle < self.min_idle {
            return Err(format!(
                "max_idle must be at least min_idle, got min_idle={:?} s and max_idle={:?} s",
                self.min_idle.as_secs_f64(),
                self.max_idle.as_secs_f64()
            ));
        }
        Ok(())
    }
}
