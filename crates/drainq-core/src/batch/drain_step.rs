//! The next step of a drain thread: a pass, an idle report, a sleep, or the end.
//!
//! # Invariants
//! 1. A thread that woke up by itself and finds no work makes no pass: for its producers it is still asleep
//!    (`wait/sleeper.rs`), so the result of its last pass still holds. It reports and sleeps again. Nothing may rely on
//!    a pass here, because a thread without an idle report sleeps on at this point.

use super::drain_hand_out::Pass;
use super::drain_take::Drainer;
use super::item::{Keyed, PartitionId};
use crate::ring::RingItem;
use crate::sync::atomic::Ordering;
use crate::sync::{Backoff, planted};
use crate::wait::sleeper::Depth;
use std::time::Instant;

/// The next step of a drain thread.
pub enum Step<'a, T: RingItem + Keyed> {
    /// Hand out these items.
    Pass(Pass<'a, T>),
    /// The pass found nothing, and at least one handler wants to be called in that case.
    Idle(&'a mut Drainer<T>),
    /// The queue is closed and empty: the thread may end.
    Closed,
}

impl<T: RingItem + Keyed> Drainer<T> {
    /// Waits until there is something to do; returns the next step.
    ///
    /// This method calls `sync_with_producers` before the thread falls idle or lingers. If the producers share a lock,
    /// `sync_with_producers` takes the lock, runs its argument, and releases the lock. Otherwise it does nothing.
    ///
    /// # Panics
    ///
    /// On a drainer of a pool, whose threads wait in the pool.
    pub fn next_step(&mut self, sync_with_producers: impl Fn(&dyn Fn())) -> Step<'_, T> {
        let backoff = Backoff::new();
        loop {
            // After an idle report the thread goes to sleep without another pass: the second check before its sleep
            // finds the items that came in the meantime.
            if !std::mem::take(&mut self.has_reported_idle) {
                if !self.last_pass_stands() {
                    self.linger(&sync_with_producers);
                    if self.take() {
                        return Step::Pass(Pass { drainer: self });
                    }
                    if self.is_finished() {
                        return Step::Closed;
                    }
                }
                if self.reports_idle_passes() {
                    self.has_reported_idle = true;
                    return Step::Idle(self);
                }
            }
            self.empty_passes = self.empty_passes.saturating_add(1);
            let how = self.next_sleep(self.empty_passes);
            let parker = self.parker();
            if self.is_still_idle {
                self.is_still_idle = self.worker().sleeper.sleep_on(parker, how.1);
                continue;
            }
            let sync_with_producers = || {
                if how.0 == Depth::Idle {
                    // From now on the producer of the next item takes the slow path, and finds the sleeper.
                    sync_with_producers(&|| {
                        self.mine.iter().for_each(|id| self.queue.close_fast_path(self.queue.partition(*id)))
                    });
                }
            };
            self.is_still_idle = self.worker().sleeper.sleep(parker, how, sync_with_producers, || {
                let busy = self.has_work();
                if busy {
                    backoff.snooze();
                }
                busy
            });
        }
    }

    /// Whether the last pass still holds (invariant 1): the state is idle, because the thread woke up by itself or by a
    /// token that was left while it was awake, and [`Self::has_work`] finds nothing.
    fn last_pass_stands(&mut self) -> bool {
        let stands = self.is_still_idle && (planted("sleep_on_look") || !self.has_work());
        if !stands && std::mem::take(&mut self.is_still_idle) {
            self.worker().sleeper.wake_up();
        }
        stands
    }

    /// Naps for the linger time of the settings before the first item after an idle time is taken. A partition that
    /// is half full, a flush and a close end the nap.
    fn linger(&mut self, sync_with_producers: &impl Fn(&dyn Fn())) {
        let time = self.queue.settings.linger;
        if time.is_zero() || self.lingered {
            return;
        }
        self.refresh();
        if !self.has_work() {
            return;
        }
        self.lingered = true;
        let half_full = |id: &PartitionId| self.queue.is_half_full(self.queue.partition(*id));
        let flushes = || self.queue.flushes.load(Ordering::Relaxed) > 0;
        let is_over =
            || !planted("linger_check") && (!self.queue.is_running() || flushes() || self.mine.iter().any(half_full));
        let started = Instant::now();
        loop {
            let left = time.saturating_sub(started.elapsed());
            // The fast path may stay open: it ends at a quarter of a partition, and only half a partition ends this
            // nap.
            let sync = || sync_with_producers(&|| {});
            self.worker().sleeper.sleep(self.parker(), (Depth::Nap, Some(left)), sync, is_over);
            // An alarm of an earlier wake-up may come late, and end a nap early.
            if left.is_zero() || is_over() {
                return;
            }
        }
    }

    /// Makes a pass if there are items, without waiting.
    pub fn try_step(&mut self) -> Step<'_, T> {
        if self.take() { Step::Pass(Pass { drainer: self }) } else { Step::Idle(self) }
    }
}
