//! How a drain thread sleeps that found nothing: for a nap, in which items gather, or until it is woken; and how long at
//! most. `wait/sleeper.rs` has the sleep itself, and the wake-up.
//!
//! A wake-up costs some microseconds of processor time, on the side of the producer and on that of the drain thread.
//! While items are rare that is little against the time between them, and each wakes the drain thread at once. When
//! they are frequent, the thread naps after a pass that found nothing, and one wake-up serves all items that gathered.
//! A *span* is the time from one empty pass after items to the next.
//!
//! # Invariants
//! 1. Frequent means: in each of the last two spans an item arrived at least every [`CHEAP_WAKE_EVERY`] on average. So
//!    wake-ups that are not naps' ends come at most about that often in the long run. One span alone would not do: items
//!    that a stalled producer or drain thread held up arrive together, and the next one would then wait for a nap.
//! 2. What is found here decides how deep a thread sleeps, never whether an item is found: the argument of
//!    `wait/sleeper.rs` holds for both depths.
//!
//! Source: interrupt moderation of network cards, which interrupt at once at low rates and gather at high ones.

use super::config::Settings;
use crate::wait::sleeper::{Depth, sleep_after};
use std::time::{Duration, Instant};

/// A wake-up for each item is cheap while items are at least this far apart.
const CHEAP_WAKE_EVERY: Duration = Duration::from_micros(50);

/// The items that one drain thread took, and since when.
pub(super) struct Arrivals {
    since: Instant,
    items: u32,
    /// Whether items were frequent in the span before.
    last_was_frequent: bool,
}

impl Arrivals {
    /// Starts to count at `now`.
    pub fn new(now: Instant) -> Self {
        Self { since: now, items: 0, last_was_frequent: false }
    }

    /// Counts items that a pass took.
    pub fn took(&mut self, items: usize) {
        self.items = self.items.saturating_add(u32::try_from(items).unwrap_or(u32::MAX));
    }

    /// Returns how deep and how long a thread sleeps after `empty_passes` passes in a row without an item.
    ///
    /// A thread that `wakes_by_itself`, because a handler wants to know of idle passes, sleeps longer with each of them.
    pub fn next_sleep(
        &mut self,
        empty_passes: u32,
        settings: &Settings,
        wakes_by_itself: bool,
    ) -> (Depth, Option<Duration>) {
        // A model has no time, and explores the nap.
        let modelled = cfg!(any(loom, drainq_shuttle));
        let shortest = settings.min_idle;
        if empty_passes <= 1 && (modelled || self.were_frequent(Instant::now())) && !shortest.is_zero() {
            return (Depth::Nap, Some(shortest));
        }
        (Depth::Idle, wakes_by_itself.then(|| sleep_after(empty_passes, shortest, settings.max_idle)))
    }

    /// Ends a span at `now`: whether items are frequent (invariant 1).
    fn were_frequent(&mut self, now: Instant) -> bool {
        let time = now.saturating_duration_since(self.since);
        let items = std::mem::take(&mut self.items);
        self.since = now;
        let is_frequent = time < CHEAP_WAKE_EVERY.saturating_mul(items);
        std::mem::replace(&mut self.last_was_frequent, is_frequent) && is_frequent
    }
}

#[cfg(all(test, not(any(loom, drainq_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn items_are_frequent_from_one_each_fifty_microseconds_on_twice_in_a_row() {
        let start = Instant::now();
        let at = |micros| start + Duration::from_micros(micros);
        let mut arrivals = Arrivals::new(start);
        assert!(!arrivals.were_frequent(start), "no item yet");
        let mut span = |items, end| {
            arrivals.took(items);
            arrivals.were_frequent(at(end))
        };
        assert!(!span(1, 50), "one in 50 us");
        assert!(!span(21, 1_000), "21 in 950 us, for the first time");
        assert!(span(21, 2_000), "again");
        assert!(span(2, 2_099), "and again");
        assert!(!span(1, 2_200), "one in 101 us");
        assert!(!span(2, 2_210), "two that were held up");
        assert!(!span(1, 2_300), "and one on its own");
    }

    #[test]
    fn more_items_than_a_counter_holds_are_frequent() {
        let start = Instant::now();
        let mut arrivals = Arrivals::new(start);
        for hour in 1..3 {
            arrivals.took(usize::MAX);
            arrivals.took(usize::MAX);
            assert_eq!(arrivals.were_frequent(start + Duration::from_secs(3_600 * hour)), hour == 2);
        }
    }
}
