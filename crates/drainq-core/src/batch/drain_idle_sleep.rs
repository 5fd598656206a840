//! Decides how a drain thread sleeps after an empty pass: for a nap, in which items gather, or until it is woken.
//! `wait/sleeper.rs` has the sleep itself and the wake-up.
//!
//! A wake-up costs some microseconds of processor time, on the side of the producer and on that of the drain thread.
//! While items are rare, each item wakes the drain thread at once. When items are frequent, the thread naps after an
//! empty pass, and one wake-up serves all items that gathered. A *span* is a time from one empty pass to a later one,
//! at least as long as a nap.
//!
//! # Invariants
//! 1. Frequent means: in each of the last two spans an item arrived at least every [`cheap_wake_every`] on average. So
//!    in the long run producers wake the thread at most about that often. One span, or shorter ones, would not be
//!    enough: items that a stalled producer or drain thread held up arrive together, and the next item would then wait
//!    for a nap.
//! 2. This file decides how deep a thread sleeps, never whether an item is found: the argument of `wait/sleeper.rs`
//!    holds for both depths.
//!
//! Source: interrupt moderation of network cards, which interrupt at once at low rates and gather at high ones.

use super::config::Settings;
use crate::wait::sleeper::{Depth, sleep_after};
use std::time::{Duration, Instant};

/// Returns the shortest time between items at which one wake-up for each item is cheap, in a queue with this many
/// threads.
///
/// With one thread this is about the cost of a wake-up on both sides. The threads of a queue wake up in parallel, so
/// with several threads the items of each must be further apart.
fn cheap_wake_every(threads: usize) -> Duration {
    const OF_A_QUEUE: Duration = Duration::from_micros(10);
    const MOST: Duration = Duration::from_micros(50);
    OF_A_QUEUE.saturating_mul(u32::try_from(threads).unwrap_or(u32::MAX)).min(MOST)
}

/// The items that one drain thread took in the current span.
pub(super) struct Arrivals {
    since: Instant,
    items: u32,
    cheap_wake_every: Duration,
    /// Whether items were frequent in the last span and in the one before it.
    last_was_frequent: bool,
    before_was_frequent: bool,
}

impl Arrivals {
    /// Starts to count at `now`, for one of this many threads.
    pub fn new(now: Instant, threads: usize) -> Self {
        let cheap_wake_every = cheap_wake_every(threads);
        Self { since: now, items: 0, cheap_wake_every, last_was_frequent: false, before_was_frequent: false }
    }

    /// Counts items that a pass took.
    pub fn took(&mut self, items: usize) {
        self.items = self.items.saturating_add(u32::try_from(items).unwrap_or(u32::MAX));
    }

    /// Returns how deep and how long a thread sleeps after `empty_passes` passes in a row without an item.
    ///
    /// A thread that `wakes_by_itself`, because a handler wants idle reports, sleeps longer after each empty pass.
    pub fn next_sleep(
        &mut self,
        empty_passes: u32,
        settings: &Settings,
        wakes_by_itself: bool,
    ) -> (Depth, Option<Duration>) {
        // A model has no time, and explores the nap.
        let modelled = cfg!(any(loom, drainq_shuttle));
        let shortest = settings.min_idle;
        if empty_passes <= 1 && (modelled || self.are_frequent(Instant::now(), shortest)) && !shortest.is_zero() {
            return (Depth::Nap, Some(shortest));
        }
        (Depth::Idle, wakes_by_itself.then(|| sleep_after(empty_passes, shortest, settings.max_idle)))
    }

    /// Whether items are frequent (invariant 1) at `now`, which ends the span if it is at least as long as a nap.
    fn are_frequent(&mut self, now: Instant, nap: Duration) -> bool {
        let time = now.saturating_duration_since(self.since);
        if time >= nap {
            let items = std::mem::take(&mut self.items);
            self.since = now;
            self.before_was_frequent =
                std::mem::replace(&mut self.last_was_frequent, time < self.cheap_wake_every.saturating_mul(items));
        }
        self.last_was_frequent && self.before_was_frequent
    }
}

#[cfg(all(test, not(any(loom, drainq_shuttle))))]
mod tests {
    use super::*;

    const NAP: Duration = Duration::from_millis(1);

    #[test]
    fn a_wake_up_is_cheap_every_ten_microseconds_a_queue() {
        assert_eq!([1, 2, 5, 6, usize::MAX].map(cheap_wake_every), [10, 20, 50, 50, 50].map(Duration::from_micros));
    }

    #[test]
    fn items_are_frequent_from_one_each_fifty_microseconds_on_in_two_spans_in_a_row() {
        let start = Instant::now();
        let at = |micros| start + Duration::from_micros(micros);
        let mut arrivals = Arrivals::new(start, 5);
        assert!(!arrivals.are_frequent(start, NAP), "no item yet");
        let mut pass = |items, end| {
            arrivals.took(items);
            arrivals.are_frequent(at(end), NAP)
        };
        assert!(!pass(20, 1_000), "one in 50 us");
        assert!(!pass(21, 2_000), "21 in 1,000 us, for the first time");
        assert!(pass(21, 3_000), "again");
        assert!(pass(1, 3_999), "the third span is too short to judge");
        assert!(!pass(1, 4_100), "two in 1,100 us");
        assert!(!pass(30, 7_100), "30 that were held up for 3 ms");
        assert!(!pass(31, 8_200), "31 in 1,100 us");
        assert!(!pass(9, 9_250), "and nine");
    }

    #[test]
    fn items_that_were_held_up_are_not_frequent_however_many_passes_take_them() {
        let start = Instant::now();
        let mut arrivals = Arrivals::new(start, 1);
        for item in 1..=100 {
            arrivals.took(1);
            assert!(!arrivals.are_frequent(start + Duration::from_micros(9 * item), NAP), "item {item}");
        }
    }

    #[test]
    fn more_items_than_a_counter_holds_are_frequent() {
        let start = Instant::now();
        let mut arrivals = Arrivals::new(start, 1);
        for hour in 1..3 {
            arrivals.took(usize::MAX);
            arrivals.took(usize::MAX);
            assert_eq!(arrivals.are_frequent(start + Duration::from_secs(3_600 * hour), NAP), hour == 2);
        }
    }
}
