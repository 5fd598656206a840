//! Snapshots of the counters.

use super::round_robin_selection::Slot;
use super::shared::MultiShared;
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

    /// Returns the counters of the multi-queue, which include the items of removed sub-queues.
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

/// The counters of a multi-queue and of its sub-queues, at one moment.
pub struct AllStats<N> {
    /// The counters of the multi-queue itself.
    pub total: Stats,
    /// The number of getters that wait for an item.
    pub blocked_getters: usize,
    /// The number of attached sub-queues.
    pub attached: usize,
    /// The counters of the first sub-queues, with their names.
    pub each: Vec<(N, Stats)>,
}

impl<T, L> MultiShared<T, L> {
    /// Reads the counters of the multi-queue and of at most `most` sub-queues.
    ///
    /// `name` runs under the lock: it must not call back or block.
    pub fn read_stats<N>(&self, most: usize, mut name: impl FnMut(&L) -> N) -> AllStats<N> {
        let now = self.now();
        // `with` is not used, because it may wake a waiter, and a waker may run code of the caller.
        let state = self.state.lock();
        AllStats {
            total: state.total_stats(now),
            blocked_getters: state.getters.blocked(),
            attached: state.attached.iter().count(),
            each: state
                .attached
                .iter()
                .take(most)
                .map(|slot| (name(&state.sub(slot).label), state.sub_stats(slot, now)))
                .collect(),
        }
    }

    /// Whether it was shut down.
    pub fn is_shut_down(&self) -> bool {
        self.state.lock().is_shut_down
    }
}
