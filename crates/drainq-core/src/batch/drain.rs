//! One drain thread: what it does in a pass, and how it waits for the next.
//!
//! A pass takes what is queued in the partitions that the thread owns, sorts it by type,
//! hands it out batch by batch, and accounts for each batch when its handler call is over.
//! The leases are held from the first take to the end of the pass, handler calls included:
//! that is what keeps a type on one thread at a time while partitions change hands.
//!
//! # Invariants
//! 1. Items are taken between `Lease::begin` and `Lease::end`, under the worker's lock.
//! 2. A pass ends with every item that it took accounted for exactly once.
//! 3. No pass takes more than [`PASS`] batches, so each pass ends.

use super::group::{Batch, Groups};
use super::handoff::ThreadId;
use super::partition::PartitionId;
use super::queue::BatchQueue;
use super::route::{Key, Keyed, Outcome};
use super::worker::Worker;
use crate::park::{Depth, sleep_after};
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, Backoff, Parker, full_fence, order, planted};
use crate::word::Word;
use std::time::Instant;

/// A pass stops taking when it holds this many times the largest batch.
const PASS: usize = 4;

/// The epoch of a drainer that knows that its queue shuts down.
const CLOSING: u64 = u64::MAX;

/// What became of the items of a pass that ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Accounted {
    /// All were accounted for by the pass.
    All,
    /// The queue gave up on some of them first.
    UpToTheCut,
}

/// What a drain thread is to do next.
pub enum Step<'a, T: Word + Keyed> {
    /// Hand these items out.
    Pass(Pass<'a, T>),
    /// Nothing was found; tell whoever wants to hear of it.
    Idle(&'a mut Drainer<T>),
    /// The queue is closed and empty: the thread may end.
    Closed,
}

/// One drain thread's side of a queue.
pub struct Drainer<T: Word + Keyed> {
    queue: Arc<BatchQueue<T>>,
    me: ThreadId,
    parker: Option<Parker>,
    /// Partitions that were mine at `epoch`.
    mine: Vec<PartitionId>,
    epoch: u64,
    /// Where the next pass starts in `mine`: nobody is always last.
    turn: usize,
    empty_passes: u32,
    told_idle: bool,
    /// Items have had their time to gather.
    lingered: bool,
    taken: Vec<T>,
    /// Partitions that the pass holds, and the index up to which it took from each.
    leased: Vec<(PartitionId, u64)>,
    groups: Groups<T>,
    started: Instant,
}

impl<T: Word + Keyed> Drainer<T> {
    /// The drainer of worker `me`.
    pub fn new(queue: Arc<BatchQueue<T>>, me: ThreadId) -> Self {
        let groups = Groups::new(queue.grouping, queue.settings.max_batch, queue.settings.weighed);
        let parker = queue.workers[usize::from(me)].take_parker();
        Self {
            queue,
            me,
            parker,
            mine: Vec::new(),
            epoch: 0,
            turn: 0,
            empty_passes: 0,
            told_idle: false,
            lingered: false,
            taken: Vec::new(),
            leased: Vec::new(),
            groups,
            started: Instant::now(),
        }
    }

    /// The queue that is drained.
    pub fn queue(&self) -> &Arc<BatchQueue<T>> {
        &self.queue
    }

    /// The thread number.
    pub fn id(&self) -> ThreadId {
        self.me
    }

    fn worker(&self) -> &Worker {
        &self.queue.workers[usize::from(self.me)]
    }

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
            let parker = self.parker.as_ref().expect("a pool's drainer never waits by itself");
            let settle = || {
                if how.0 == Depth::Idle {
                    // From now on the next item of each partition must find the sleeper.
                    settle(&|| self.mine.iter().for_each(|id| self.queue.partition(*id).ring.end_calm()));
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
        let parker = self.parker.as_ref().expect("a pool's drainer never waits by itself");
        self.worker().sleeper.sleep(
            parker,
            (Depth::Nap, Some(time)),
            // It is calm up to a quarter, and only half a partition ends this nap.
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

    /// Whether the queue is closed and nothing is left that this thread could take.
    pub fn is_finished(&self) -> bool {
        !self.queue.is_running()
            && (self.worker().counts.lock().cut
                || self.queue.partitions.iter().all(|at| at.ring.is_closed() && at.ring.is_empty()))
    }

    /// Whether the partition of this key is mine, and the last pass had nothing for it.
    pub fn found_nothing_for(&self, key: Key) -> bool {
        self.queue.partition(self.queue.partition_of(key)).lease().owner() == self.me && !self.groups.holds(key)
    }

    /// Whether somebody wants to hear of a pass of this thread that found nothing.
    pub fn is_watched(&self) -> bool {
        let watched = |id: &PartitionId| self.queue.partition(*id).watched.load(Ordering::Relaxed) > 0;
        self.queue.watched.load(Ordering::Relaxed) || self.mine.iter().any(watched)
    }

    /// Whether a pass would find something, or the list of partitions is out of date.
    pub fn has_work(&self) -> bool {
        if !self.queue.is_running() {
            let mut partitions = self.queue.partitions.iter();
            return self.epoch != CLOSING
                || self.is_finished()
                || partitions.any(|at| !at.ring.is_empty() && !at.lease().is_busy());
        }
        self.queue.epoch.load(order("move_epoch_read", Ordering::Acquire)) != self.epoch
            || self.mine.iter().any(|id| !self.queue.partition(*id).ring.is_empty())
    }

    /// Looks up which partitions are mine, if that may have changed. A queue that shuts
    /// down belongs to every thread.
    fn refresh(&mut self) {
        let closing = !self.queue.is_running();
        let epoch = if closing { CLOSING } else { self.queue.epoch.load(order("move_epoch_read", Ordering::Acquire)) };
        if epoch != self.epoch {
            self.epoch = epoch;
            let me = self.me;
            let ids = (0..).zip(self.queue.partitions.iter());
            self.mine = ids.filter(|(_, at)| closing || at.lease().owner() == me).map(|(id, _)| id).collect();
        }
    }

    /// Takes what is there; true if that is anything.
    fn take(&mut self) -> bool {
        self.refresh();
        self.queue.enter(self.me);
        let queue = self.queue.clone();
        let closing = self.epoch == CLOSING;
        let enough = PASS * queue.settings.max_batch;
        let mut counts = queue.workers[usize::from(self.me)].counts.lock();
        if counts.cut {
            return false;
        }
        let (mut total, mut in_flight) = (0, 0);
        for step in 0..self.mine.len() {
            let id = self.mine[(self.turn + step) % self.mine.len()];
            let at = queue.partition(id);
            if at.ring.is_empty() || !(if closing { at.lease().begin_any() } else { at.lease().begin(self.me) }) {
                continue;
            }
            // SAFETY: this thread is between `begin` and `end` of the partition's lease,
            // where at most one thread is, and the lease orders one pass after the other;
            // the cut of a shutdown takes under the counts locks of all workers.
            let taken = unsafe { at.ring.take(queue.settings.max_batch, &mut self.taken) };
            self.leased.push((id, at.ring.taken()));
            let weight = at.rows.took(&self.taken);
            at.space.call(taken);
            self.groups.add(&mut self.taken);
            total += taken;
            in_flight += weight;
            if total >= enough {
                self.turn = self.turn.wrapping_add(step);
                break;
            }
        }
        self.turn = self.turn.wrapping_add(1) % self.mine.len().max(1);
        counts.in_flight = in_flight;
        if total == 0 {
            drop(counts);
            self.end_leases(Accounted::All);
            return false;
        }
        self.groups.tally(|key, count| queue.route(key).count_taken(count));
        counts.cycles += 1;
        self.empty_passes = 0;
        self.told_idle = false;
        self.lingered = false;
        self.started = Instant::now();
        true
    }

    fn end_leases(&mut self, accounted: Accounted) {
        for (id, taken) in self.leased.drain(..) {
            let at = self.queue.partition(id);
            if accounted == Accounted::All || planted("flush_after_cut") {
                at.completed.store(taken, order("flush_publish", Ordering::Release));
            }
            if let Some(new) = at.lease().end().filter(|_| !planted("move_at_pass_end")) {
                self.queue.tell_new_owner(new);
            }
        }
    }
}

impl<T: Word + Keyed> BatchQueue<T> {
    /// Makes sure that a thread learns of a partition that it was given, even if it sleeps.
    pub(super) fn tell_new_owner(&self, new: ThreadId) {
        if !planted("move_epoch") {
            self.epoch.fetch_add(1, order("move_epoch_publish", Ordering::Release));
        }
        full_fence("move_fence");
        if !planted("move_wake") {
            self.workers[usize::from(new)].sleeper.wake(|| true);
        }
    }
}

/// What one pass took, to be handed out. Dropped, it ends the pass.
pub struct Pass<'a, T: Word + Keyed> {
    drainer: &'a mut Drainer<T>,
}

impl<T: Word + Keyed> Pass<'_, T> {
    /// The drainer, to ask about other types.
    pub fn drainer(&self) -> &Drainer<T> {
        self.drainer
    }

    /// The next batch, until there is none.
    pub fn next_batch(&mut self) -> Option<Batch<T>> {
        self.drainer.groups.next()
    }

    /// Accounts for a batch whose handler call is over: what became of how many of its
    /// items, which must be all of them.
    ///
    /// False if the queue gave up waiting for this call and counted the batch as abandoned
    /// before it was over: then the rest of the pass must not be handed out either.
    pub fn account(&mut self, batch: Batch<T>, outcomes: &[(Outcome, u64)]) -> bool {
        debug_assert_eq!(outcomes.iter().map(|outcome| outcome.1).sum::<u64>(), batch.size);
        let worker = self.drainer.worker();
        let mut counts = worker.counts.lock();
        if counts.cut && !planted("cut_account") {
            return false;
        }
        counts.in_flight -= batch.size;
        for (outcome, count) in outcomes {
            match outcome {
                Outcome::Handled => counts.handled += count,
                Outcome::Failed => counts.failed += count,
                Outcome::DeadLettered => counts.dead_lettered += count,
                Outcome::Unrouted => counts.unrouted += count,
            }
        }
        for (key, count) in &batch.tally {
            self.drainer.queue.route(*key).count(outcomes[0].0, *count);
        }
        drop(counts);
        self.drainer.groups.reuse(batch);
        true
    }
}

impl<T: Word + Keyed> Drop for Pass<'_, T> {
    fn drop(&mut self) {
        let left = self.drainer.groups.end();
        let accounted = {
            let mut counts = self.drainer.worker().counts.lock();
            if !counts.cut {
                // Nobody asked for these, or a batch was taken out and never accounted for.
                self.drainer.queue.abandoned.fetch_add(counts.in_flight, Ordering::Relaxed);
                counts.in_flight = 0;
            }
            counts.busy_nanos += self.drainer.started.elapsed().as_nanos() as u64;
            if counts.cut { Accounted::UpToTheCut } else { Accounted::All }
        };
        drop(left);
        self.drainer.end_leases(accounted);
        if !planted("flush_call") {
            self.drainer.queue.watchers.call_all();
        }
        if !self.drainer.queue.is_running() && !planted("close_wake_peers") {
            // What this pass left behind, any thread may take now; or all may end.
            self.drainer.queue.wake_all();
        }
    }
}

impl<T: Word + Keyed> Drop for Drainer<T> {
    fn drop(&mut self) {
        self.queue.watchers.call_all();
    }
}
