//! Snapshots of the counters.

use super::selection::Slot;
use super::state::MultiState;
use super::sub_queue::Stats;
use std::time::Duration;

impl<T, L> MultiState<T, L> {
    /// Returns the counters of one sub-queue.
    pub fn sub_stats(&self, slot: Slot, now: u64) -> Stats {
        let sub = self.sub(slot);
        Stats {
            depth: sub.items.len() + sub.held,
            counters: sub.counters,
            oldest_age: sub.items.front().map(|head| Duration::from_nanos(now.saturating_sub(head.at))),
            blocked_putters: sub.putters.blocked(),
        }
    }

    /// Returns the counters of the whole, items of removed sub-queues included.
    pub fn total_stats(&self, now: u64) -> Stats {
        let each: Vec<Stats> = self.attached.iter().map(|slot| self.sub_stats(slot, now)).collect();
        Stats {
            depth: self.depth,
            counters: self.totals,
            oldest_age: each.iter().filter_map(|sub| sub.oldest_age).max(),
            blocked_putters: each.iter().map(|sub| sub.blocked_putters).sum(),
        }
    }
}
