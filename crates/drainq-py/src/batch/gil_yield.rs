//! The GIL yield: producers give up the GIL for a drain thread before a partition fills up.
//!
//! A thread that asks for the GIL gets it when the holder releases it, or after 5 ms (the switch interval) for each
//! waiting thread. Producers in Python code release it rarely, so a drain thread would wait while its partitions fill
//! up. Therefore the drain thread announces here that it asks for the GIL. A producer whose partition is a quarter full
//! then releases the GIL, and waits until the drain thread has had it. Below a quarter the producer does so only for a
//! drain thread that has already waited for long: a yield at each item would only move the wait from the drain thread
//! to the producers.
//!
//! # Invariants
//! 1. `asking` counts the threads between [`GilYield::ask`] and [`GilYield::granted`] or
//!    [`GilYield::granted_to_sleep`]; only drain threads change it. A producer reads it with the GIL held.
//! 2. A producer enlists before it releases the GIL, and `granted` is called with the GIL held: so `granted` notifies
//!    every producer that yielded to its thread.
//! 3. If items are left in the queue when a thread was granted the GIL to sleep, their owner takes them and asks for
//!    the GIL again. The producers are notified at that next grant, when there is room.
//!
//! Measured: with four producers that spend 2 us of Python per item, 64 to 71 % of the items
//! found their partition full without the yield, and none with it. The longest wait was 3 to
//! 7 ms.

use crate::batch::types::item::Item;
use crate::gil;
use drainq_core::batch::BatchQueue;
use drainq_core::batch::partition::{FAST_SHARE, Partition};
use drainq_core::wait::waiters::Waiters;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Producers yield to a drain thread that has waited for this long, however empty the partition is. This time is
/// half of CPython's usual switch interval: the other half is for the producers that get the GIL before
/// the drain thread does.
const LATE: Duration = Duration::from_micros(2_500);

/// The longest wait of a producer if no drain thread gets the GIL.
const LONGEST_YIELD: Duration = Duration::from_millis(20);

/// Buckets of the histogram: bucket `n` counts waits below `2^n` microseconds.
pub const BUCKETS: usize = 24;

/// The rules by which the producers of one queue yield the GIL to its drain threads.
pub struct GilYield {
    /// Drain threads that wait for the GIL.
    asking: AtomicUsize,
    /// The time of the last change: a drain thread got the GIL, or asked for it as the first one. Nanoseconds since
    /// `origin`.
    since: AtomicU64,
    origin: Instant,
    /// Producers that released the GIL.
    producers: Waiters,
    yields: AtomicU64,
    waits: [AtomicU64; BUCKETS],
    /// The sum of all waits, in nanoseconds.
    waited: AtomicU64,
}

impl GilYield {
    /// Makes the state in which no drain thread asks for the GIL.
    pub fn new() -> Self {
        Self {
            asking: AtomicUsize::new(0),
            since: AtomicU64::new(0),
            origin: Instant::now(),
            producers: Waiters::new(),
            yields: AtomicU64::new(0),
            waits: std::array::from_fn(|_| AtomicU64::new(0)),
            waited: AtomicU64::new(0),
        }
    }

    /// Announces that a drain thread, which has a pass to deliver or is about to sleep, asks for the GIL; returns the
    /// time for [`Self::granted`].
    pub fn ask(&self) -> Instant {
        let now = Instant::now();
        if self.asking.fetch_add(1, Ordering::Relaxed) == 0 {
            self.set_since(now);
        }
        now
    }

    fn set_since(&self, now: Instant) {
        self.since.store((now - self.origin).as_nanos() as u64, Ordering::Relaxed);
    }

    /// Records that the drain thread got the GIL, and notifies the producers that yielded; returns the time.
    pub fn granted(&self, asked_at: Instant) -> Instant {
        let now = self.got();
        let wait = now - asked_at;
        self.producers.notify_all();
        self.waited.fetch_add(wait.as_nanos() as u64, Ordering::Relaxed);
        let micros = wait.as_micros() as u64;
        let bucket = (u64::BITS - micros.leading_zeros()) as usize;
        self.waits[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        now
    }

    /// Records that a drain thread has the GIL that it asked for before it sleeps (invariant 3). Called with the GIL
    /// held. Its wait held up no items, so [`Self::waits`] does not count it.
    pub fn granted_to_sleep(&self, is_queue_empty: bool) {
        self.got();
        if is_queue_empty {
            self.producers.notify_all();
        }
    }

    /// Ends a request for the GIL; returns the time.
    fn got(&self) -> Instant {
        let now = Instant::now();
        self.asking.fetch_sub(1, Ordering::Relaxed);
        self.set_since(now);
        now
    }

    /// Whether a drain thread waits for the GIL.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.asking.load(Ordering::Relaxed) > 0
    }

    /// Whether a drain thread has waited for the GIL for longer than producers may keep it.
    fn is_overdue(&self) -> bool {
        self.origin.elapsed().as_nanos() as u64 > self.since.load(Ordering::Relaxed) + LATE.as_nanos() as u64
    }

    /// Gives the GIL to a drain thread that asks for it, if the partition fills up or the drain thread has waited for
    /// long. A drain thread that asks has no handler call under way: a handler that produces yields to another thread.
    pub fn yield_if_due(&self, py: Python<'_>, queue: &BatchQueue<Item>, partition: &Partition<Item>) {
        if self.is_wanted() && (queue.holds_one_in(partition, FAST_SHARE) || self.is_overdue()) {
            // Another producer may get the GIL before the drain thread does, and must check and yield too.
            queue.close_fast_path(partition);
            self.yield_to_drain_thread(py);
        }
    }

    /// Releases the GIL until a drain thread has had it.
    #[cold]
    pub fn yield_to_drain_thread(&self, py: Python<'_>) {
        self.yields.fetch_add(1, Ordering::Relaxed);
        let mut waiter = self.producers.enter();
        gil::released(py, || waiter.wait(LONGEST_YIELD));
        waiter.served();
    }

    /// Returns how often a producer released the GIL.
    pub fn yields(&self) -> u64 {
        self.yields.load(Ordering::Relaxed)
    }

    /// Returns how long drain threads waited for the GIL: pairs of an upper bound in seconds and the number of waits
    /// between the previous bound and this one.
    pub fn waits(&self) -> Vec<(f64, u64)> {
        let bound = |bucket: usize| (1_u64 << bucket) as f64 * 1e-6;
        self.waits.iter().enumerate().map(|(n, count)| (bound(n), count.load(Ordering::Relaxed))).collect()
    }

    /// Returns the sum of all waits of drain threads for the GIL, in seconds.
    pub fn waited_seconds(&self) -> f64 {
        self.waited.load(Ordering::Relaxed) as f64 * 1e-9
    }
}
