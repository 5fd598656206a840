//! The reasons why items were not accepted, and their counters.

use crate::ring::Refusal;
use crate::sync::CachePadded;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Why an item was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// There was no room, or none in time.
    Full,
    /// The queue is shutting down or shut down.
    Closed,
    /// A handler would have waited for room in its own queue.
    WouldDeadlock,
}

impl Rejection {
    /// All reasons, in the order of the counters.
    pub const ALL: [Self; 3] = [Self::Full, Self::Closed, Self::WouldDeadlock];

    /// Returns the name under which it is counted.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Closed => "closed",
            Self::WouldDeadlock => "would_deadlock",
        }
    }
}

impl From<Refusal> for Rejection {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Full | Refusal::NoMemory => Self::Full,
            Refusal::Closed => Self::Closed,
        }
    }
}

/// A counter for each reason, on a cache line of its own because producers write it.
#[derive(Default)]
pub(super) struct Rejections([CachePadded<AtomicU64>; Rejection::ALL.len()]);

impl Rejections {
    /// Counts items that were not accepted.
    pub fn count(&self, reason: Rejection, count: u64) {
        self.0[reason as usize].fetch_add(count, Ordering::Relaxed);
    }

    /// Returns the number of items rejected for this reason.
    pub fn of(&self, reason: Rejection) -> u64 {
        self.0[reason as usize].load(Ordering::Relaxed)
    }
}
