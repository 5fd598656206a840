//! How a drain thread finds out what to do next, and how it waits until there is something.

use super::drain::Drainer;
use super::item::{Keyed, PartitionId};
use super::pass::Pass;
use crate::ring::RingItem;
use crate::sync::{Backoff, planted};
use crate::wait::sleeper::{Depth, sleep_after};

/// What a drain thread is to do next.
pub enum Step<'a, T: RingItem + Keyed> {
    /// Hand these items out.
    Pass(Pass<'a, T>),
    /// Nothing was found; tell whoever wants to hear of it.
    Idle(&'a mut Drainer<T>),
    /// The queue is closed and empty: the thread may end.
    Closed,
}

impl<T: RingItem + Keyed> Drainer<T> {
    /// Waits until there is something to do, and says what.
    ///
    /// `sync_with_producers` is called before the thread falls idle: it takes the lock that keeps the
    /// queue's producers apart, if there is one, runs what it is given, and gives the lock back.
    /// Without such a lock it does nothing.
    ///
    /// # Panics
    ///
    /// On a drainer of a pool, whose threads wait elsewhere: see [`Self::try_step`].
    pub fn next_step(&mut self, sync_with_producers: impl Fn(&dyn Fn())) -> Step<'_, T> {
        let backoff = Backoff::new();
        loop {
            // Whoever was told that nothing was found has been told so a moment ago: sleep on that,
            // for the second look finds what has come meanwhile.
            if !std::mem::take(&mut self.has_reported_idle) {
                self.linger(&sync_with_producers);
                if self.take() {
                    return Step::Pass(Pass { drainer: self });
                }
                if self.is_finished() {
                    return Step::Closed;
                }
                if self.reports_idle_passes() {
                    self.has_reported_idle = true;
                    return Step::Idle(self);
                }
            }
            self.empty_passes = self.empty_passes.saturating_add(1);
            let settings = &self.queue.settings;
            let watched = self.reports_idle_passes();
            let how = sleep_after(self.empty_passes, settings.min_idle, settings.max_idle, watched);
            let parker = self.parker();
            let sync_with_producers = || {
                if how.0 == Depth::Idle {
                    // From now on the next item of each partition must find the sleeper.
                    sync_with_producers(&|| {
                        self.mine.iter().for_each(|id| self.queue.partition(*id).ring.close_fast_path())
                    });
                }
            };
            self.worker().sleeper.sleep(parker, how, sync_with_producers, || {
                let busy = self.has_work();
                if busy {
                    backoff.snooze();
                }
                busy
            });
        }
    }

    /// Lets items gather, if that was asked for and the first has just come. A partition
    /// that is half full, a flush and a close end it.
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
        self.worker().sleeper.sleep(
            self.parker(),
            (Depth::Nap, Some(time)),
            // The fast path is open up to a quarter, and only half a partition ends this nap.
            || sync_with_producers(&|| {}),
            || {
                let half_full = |id: &PartitionId| self.queue.partition(*id).is_half_full();
                !planted("linger_check")
                    && (!self.queue.is_running()
                        || !self.queue.pass_waiters.is_empty()
                        || self.mine.iter().any(half_full))
            },
        );
    }

    /// What there is to do now, without waiting, for a thread that serves several queues.
    pub fn try_step(&mut self) -> Step<'_, T> {
        if self.take() { Step::Pass(Pass { drainer: self }) } else { Step::Idle(self) }
    }
}
