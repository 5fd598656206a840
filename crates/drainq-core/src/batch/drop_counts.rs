//! Counts of items that are not handled, by reason.
//!
//! A count is reported at once unless its reason was reported within the last [`INTERVAL`]. If so, the count waits for
//! the next count of its reason after the interval, or for [`DropCounts::take_all`]. The caller passes in the time.
//!
//! # Invariants
//! 1. The counts reported and the counts that wait add up to the counts added, reason by reason.
//! 2. [`DropCounts::add`] reports a reason only if its last report, by any call, is at least an interval old.

use crate::sync::planted;
use std::time::{Duration, Instant};

/// The shortest time between two reports of a reason by [`DropCounts::add`].
pub const INTERVAL: Duration = Duration::from_secs(1);

/// Why items are not handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// There was no room.
    Full,
    /// The queue was shutting down.
    Closed,
    /// There is no handler for the type.
    Unrouted,
    /// The queue's shutdown ran out of time.
    Abandoned,
}

impl DropReason {
    /// All reasons, in the order in which they are reported.
    pub const ALL: [Self; 4] = [Self::Full, Self::Closed, Self::Unrouted, Self::Abandoned];

    /// Returns the name under which it is reported.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Closed => "closed",
            Self::Unrouted => "unrouted",
            Self::Abandoned => "abandoned",
        }
    }
}

/// The count of one reason.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    /// Items that wait to be reported.
    count: u64,
    /// When the reason was last reported.
    last: Option<Instant>,
}

impl Pending {
    /// Returns the items that wait, if there are any, for the caller to report now.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let count = std::mem::take(&mut self.count);
        if count > 0 {
            self.last = Some(now);
        }
        (count > 0).then_some(count)
    }
}

/// The counts of items that are not handled, by reason.
#[derive(Debug, Default)]
pub struct DropCounts([Pending; DropReason::ALL.len()]);

impl DropCounts {
    /// Adds `count` items; returns how many the caller must report now, or `None` if they wait.
    pub fn add(&mut self, reason: DropReason, count: u64, now: Instant) -> Option<u64> {
        let pending = &mut self.0[reason as usize];
        pending.count += count;
        let is_due = |last: Instant| now.saturating_duration_since(last) >= INTERVAL;
        if pending.last.is_none_or(is_due) || planted("drops_at_once") { pending.take(now) } else { None }
    }

    /// Takes all counts that wait, for the caller to report now.
    pub fn take_all(&mut self, now: Instant) -> Vec<(DropReason, u64)> {
        let waiting = DropReason::ALL.into_iter().zip(&mut self.0);
        waiting.filter_map(|(reason, pending)| Some((reason, pending.take(now)?))).collect()
    }

    /// Whether counts wait.
    pub fn wait(&self) -> bool {
        self.0.iter().any(|pending| pending.count > 0)
    }
}

#[cfg(all(test, not(any(loom, drainq_shuttle))))]
mod tests {
    use super::DropReason::{Abandoned, Closed, Full, Unrouted};
    use super::*;
    use proptest::prelude::*;

    const TICK: Duration = Duration::from_nanos(1);

    #[test]
    fn each_reason_has_its_name() {
        assert_eq!(DropReason::ALL.map(DropReason::name), ["full", "closed", "unrouted", "abandoned"]);
        assert_eq!(DropReason::ALL.map(|reason| reason as usize), [0, 1, 2, 3]);
        assert_eq!(INTERVAL, Duration::from_secs(1));
    }

    #[test]
    fn the_first_is_told_at_once_and_others_when_a_second_is_over() {
        let (mut counts, begin) = (DropCounts::default(), Instant::now());
        assert_eq!(counts.add(Full, 2, begin), Some(2));
        assert_eq!(counts.add(Full, 3, begin), None);
        assert_eq!(counts.add(Full, 4, begin + INTERVAL - TICK), None);
        assert!(counts.wait());
        assert_eq!(counts.add(Full, 1, begin + INTERVAL), Some(8));
        assert!(!counts.wait());
        assert_eq!(counts.add(Full, 5, begin + 2 * INTERVAL - TICK), None, "the second begins anew");
    }

    #[test]
    fn each_reason_has_a_second_of_its_own() {
        let (mut counts, begin) = (DropCounts::default(), Instant::now());
        for (reason, count) in DropReason::ALL.into_iter().zip(1..) {
            assert_eq!(counts.add(reason, count, begin), Some(count));
        }
        assert_eq!(counts.add(Abandoned, 7, begin + TICK), None);
        assert_eq!(counts.add(Closed, 6, begin + TICK), None);
        assert_eq!(counts.take_all(begin + TICK), [(Closed, 6), (Abandoned, 7)]);
        assert_eq!(counts.add(Unrouted, 5, begin + INTERVAL), Some(5));
    }

    #[test]
    fn what_was_taken_was_told_and_what_was_not_there_was_not() {
        let (mut counts, begin) = (DropCounts::default(), Instant::now());
        assert_eq!(counts.add(Full, 1, begin), Some(1));
        assert_eq!(counts.add(Full, 1, begin + INTERVAL / 2), None);
        assert_eq!(counts.take_all(begin + INTERVAL - TICK), [(Full, 1)]);
        assert_eq!(counts.add(Full, 1, begin + INTERVAL), None, "the report came a tick before");
        assert_eq!(counts.take_all(begin + INTERVAL), [(Full, 1)]);
        assert_eq!(counts.take_all(begin + 2 * INTERVAL), [], "there was nothing to tell");
        assert_eq!(counts.add(Full, 1, begin + 2 * INTERVAL), Some(1));
    }

    #[test]
    fn items_without_weight_are_not_told_and_delay_nothing() {
        let (mut counts, begin) = (DropCounts::default(), Instant::now());
        assert_eq!(counts.add(Full, 0, begin), None);
        assert!(!counts.wait());
        assert_eq!(counts.add(Full, 1, begin), Some(1));
    }

    proptest! {
        #[test]
        fn what_was_told_and_what_waits_is_what_was_added(
            steps in prop::collection::vec((0..5_usize, 0..4_u64, 0..1_500_u64), 0..50)
        ) {
            let (mut counts, mut now) = (DropCounts::default(), Instant::now());
            let (mut added, mut told) = ([0; 4], [0; 4]);
            for (which, count, millis) in steps {
                now += Duration::from_millis(millis);
                if let Some(reason) = DropReason::ALL.get(which) {
                    added[which] += count;
                    told[which] += counts.add(*reason, count, now).unwrap_or(0);
                } else {
                    counts.take_all(now).into_iter().for_each(|(reason, count)| told[reason as usize] += count);
                    prop_assert!(!counts.wait());
                }
            }
            prop_assert_eq!(counts.wait(), told != added);
            counts.take_all(now).into_iter().for_each(|(reason, count)| told[reason as usize] += count);
            prop_assert_eq!(told, added);
        }
    }
}
