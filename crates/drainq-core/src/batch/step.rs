//! How a drain thread finds out what to do next, and how it waits until there is something.

use super::drain::Drainer;
use super::item::{Keyed, PartitionId};
use super::pass::Pass;
use crate::park::{Depth, sleep_after};
use crate::sync::{Backoff, planted};
use crate::word::Word;

/// What a drain thread is to do next.
pub enum Step<'a, T: Word + Keyed> {
    /// Hand these items out.
    Pass(Pass<'a, T>),
    /// Nothing was found; tell whoever wants to hear of it.
    Idle(&'a mut Drainer<T>),
    /// The queue is closed and empty: the thread may end.
    Closed,
}

impl<T: Word + Keyed> Drainer<T> {
    /// Waits until there is something to do, and says what.
    ///
    /// `settle` is called before the thread falls idle: it takes the lock that keeps the
    /// queue's producers apart, if there is one, runs what it is given, and gives the lock back.
    /// Without such a lock it does nothing.
    ///
    /// # Panics
    ///
    /// On a drainer of a pool, whose threads wait elsewhere: see [`Self::try_step`].
    pub fn next_step(&mut self, settle: impl Fn(&dyn Fn())) -> Step<'_, T> {
        let backoff = Backoff::new();
        loop {
            // Whoever was told that nothing was found has been told so a moment ago: sleep on that,
            // for the second look finds what has come meanwhile.
            if !std::mem::take(&mut self.told_idle) {
                self.linger(&settle);
                if self.take() {
                    return Step::Pass(Pass { drainer: self });
                }
                if self.is_finished() {
                    return Step::Closed;
                }
                if self.is_watched() {
                    self.told_idle = true;
                    return Step::Idle(self);
                }
            }
            self.empty_passes = self.empty_passes.saturating_add(1);
            let settings = &self.queue.settings;
            let watched = self.is_watched();
            let how = sleep_after(self.empty_passes, settings.min_idle, settings.max_idle, watched);
            let parker = self.parker();
            let settle = || {
                if how.0 == Depth::Idle {
                    // From now on the next item of each partition must find the sleeper.
                    settle(&|| self.mine.iter().for_each(|id| self.queue.partition(*id).ring.close_fast_path()));
                }
            };
            self.worker().sleeper.sleep(parker, how, settle, || {
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
    fn linger(&mut self, settle: &impl Fn(&dyn Fn())) {
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
            || settle(&|| {}),
            || {
                let half_full = |id: &PartitionId| self.queue.partition(*id).is_half_full();
                !planted("linger_look")
                    && (!self.queue.is_running()
                        || self.queue.watchers.waiting() > 0
                        || self.mine.iter().any(half_full))
            },
        );
    }

    /// What there is to do now, without waiting, for a thread that serves several queues.
    pub fn try_step(&mut self) -> Step<'_, T> {
        if self.take() { Step::Pass(Pass { drainer: self }) } else { Step::Idle(self) }
    }
}
