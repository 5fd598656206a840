//! One drain thread: what it does in a pass, and how it waits for the next.
//!
//! A pass takes what is queued in the partitions that the thread owns and sorts it by type;
//! `pass.rs` hands it out. The leases are held from the first take to the end of the pass, handler
//! calls included: that is what keeps a type on one thread at a time while partitions change hands.
//!
//! # Invariants
//! 1. A worker has one drainer at a time.
//! 2. Items are taken between `Ownership::begin` and `Ownership::end`, under the worker's lock. Nobody but a
//!    drainer begins or ends a lease, and it ends those that it began.
//! 3. A pass takes from no further partition once it holds [`PASS`] times the largest batch, and no
//!    more than that batch from each: so each pass ends. The next pass starts with the partition
//!    after the last one that was taken from.

use super::group::Groups;
use super::item::{Key, Keyed, PartitionId, ThreadId};
use super::queue::BatchQueue;
use super::worker::{DrainRight, Worker};
use crate::ring::RingItem;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, Parker, full_fence, order, planted};
use std::time::Instant;

/// A pass stops taking when it holds this many times the largest batch.
const PASS: usize = 4;

/// The epoch of a drainer that knows that its queue shuts down.
const CLOSING: u64 = u64::MAX;

/// What became of the items of a pass that ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Accounted {
    /// All were accounted for by the pass.
    All,
    /// The queue gave up on some of them first.
    UpToTheCut,
}

/// One drain thread's side of a queue.
pub struct Drainer<T: RingItem + Keyed> {
    pub(super) queue: Arc<BatchQueue<T>>,
    me: ThreadId,
    /// The worker's, until this drainer is dropped.
    right: Option<DrainRight>,
    /// A pass was begun and is not over.
    pub(super) in_pass: bool,
    /// Partitions that were mine at `epoch`.
    pub(super) mine: Vec<PartitionId>,
    epoch: u64,
    /// Where the next pass starts in `mine`: nobody is always last.
    turn: usize,
    pub(super) empty_passes: u32,
    pub(super) has_reported_idle: bool,
    /// Items have had their time to gather.
    pub(super) lingered: bool,
    taken: Vec<T>,
    /// Partitions that the pass holds, and the index up to which it took from each.
    leased: Vec<(PartitionId, u64)>,
    pub(super) groups: Groups<T>,
    pub(super) started: Instant,
}

impl<T: RingItem + Keyed> Drainer<T> {
    /// The drainer of worker `me`.
    ///
    /// # Panics
    ///
    /// If there is no such worker, or if it has a drainer.
    pub fn new(queue: Arc<BatchQueue<T>>, me: ThreadId) -> Self {
        let groups = Groups::new(queue.grouping, queue.settings.max_batch, queue.settings.weighed);
        let right = queue.workers[usize::from(me)].take_right();
        assert!(right.is_some() || planted("worker_claim"), "worker {me} of queue {:?} has a drainer", queue.name());
        Self {
            queue,
            me,
            right,
            in_pass: false,
            mine: Vec::new(),
            epoch: 0,
            turn: 0,
            empty_passes: 0,
            has_reported_idle: false,
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

    pub(super) fn parker(&self) -> &Parker {
        self.right.as_ref().and_then(DrainRight::parker).expect("a pool's drainer never waits by itself")
    }

    pub(super) fn worker(&self) -> &Worker {
        &self.queue.workers[usize::from(self.me)]
    }

    /// Whether the queue is closed and nothing is left that this thread could take.
    pub fn is_finished(&self) -> bool {
        !self.queue.is_running()
            && (self.worker().counts.lock().cut
                || self.queue.partitions.iter().all(|at| at.ring.is_closed() && at.ring.is_empty()))
    }

    /// Whether the partition of this key is mine, and the last pass had nothing for it.
    pub fn found_nothing_for(&self, key: Key) -> bool {
        self.queue.partition(self.queue.partition_of(key)).ownership().owner() == self.me && !self.groups.holds(key)
    }

    /// Whether somebody wants to hear of a pass of this thread that found nothing.
    pub fn reports_idle_passes(&self) -> bool {
        let watched = |id: &PartitionId| self.queue.partition(*id).idle_reports.load(Ordering::Relaxed) > 0;
        self.queue.reports_every_idle_pass.load(Ordering::Relaxed) || self.mine.iter().any(watched)
    }

    /// Whether a pass would find something, or the list of partitions is out of date.
    pub fn has_work(&self) -> bool {
        if !self.queue.is_running() {
            let mut partitions = self.queue.partitions.iter();
            return self.epoch != CLOSING
                || self.is_finished()
                || partitions.any(|at| !at.ring.is_empty() && !at.ownership().is_busy());
        }
        self.queue.epoch.load(order("move_epoch_read", Ordering::Acquire)) != self.epoch
            || self.mine.iter().any(|id| !self.queue.partition(*id).ring.is_empty())
    }

    /// Looks up which partitions are mine, if that may have changed. A queue that shuts
    /// down belongs to every thread.
    pub(super) fn refresh(&mut self) {
        let closing = !self.queue.is_running();
        let epoch = if closing { CLOSING } else { self.queue.epoch.load(order("move_epoch_read", Ordering::Acquire)) };
        if epoch != self.epoch {
            self.epoch = epoch;
            let me = self.me;
            let ids = (0..).zip(self.queue.partitions.iter());
            self.mine = ids.filter(|(_, at)| closing || at.ownership().owner() == me).map(|(id, _)| id).collect();
        }
    }

    /// Takes what is there; true if that is anything.
    pub(super) fn take(&mut self) -> bool {
        if self.in_pass && !planted("pass_forgotten") {
            // It was forgotten, not dropped.
            self.end_pass();
        }
        self.refresh();
        self.queue.enter(self.me);
        let queue = self.queue.clone();
        let closing = self.epoch == CLOSING && !planted("close_own_only");
        let enough = PASS * queue.settings.max_batch;
        let mut counts = queue.workers[usize::from(self.me)].counts.lock();
        if counts.cut {
            return false;
        }
        let (mut total, mut in_flight, mut last) = (0, 0, 0);
        for step in 0..self.mine.len() {
            let id = self.mine[(self.turn + step) % self.mine.len()];
            let at = queue.partition(id);
            if at.ring.is_empty() || !(if closing { at.ownership().begin_any() } else { at.ownership().begin(self.me) })
            {
                continue;
            }
            // SAFETY: this drainer is between `begin` and `end` of the partition's lease (invariant 2),
            // where at most one is, and the lease orders one pass after the other; the cut of a
            // shutdown takes under the counts locks of all workers, one of which is held here.
            let taken = unsafe { at.ring.take(queue.settings.max_batch, &mut self.taken) };
            self.leased.push((id, at.ring.taken()));
            if planted("weights_notify_early") {
                at.room_waiters.notify(taken);
            }
            let weight = at.weights.took(&self.taken);
            if !planted("weights_notify_early") {
                at.room_waiters.notify(taken);
            }
            self.groups.add(&mut self.taken);
            total += taken;
            in_flight += weight;
            if total >= enough && !planted("pass_cap") {
                last = step;
                break;
            }
        }
        if !planted("pass_turn") {
            self.turn = (self.turn + last + 1) % self.mine.len().max(1);
        }
        counts.in_flight = in_flight;
        if total == 0 {
            drop(counts);
            self.end_leases(Accounted::All);
            return false;
        }
        self.in_pass = true;
        self.groups.tally(|key, count| queue.route(key).count_taken(count));
        counts.cycles += 1;
        self.empty_passes = 0;
        self.has_reported_idle = false;
        self.lingered = false;
        self.started = Instant::now();
        true
    }

    /// Ends the pass: accounts for what is left of it, and lets the partitions go.
    pub(super) fn end_pass(&mut self) {
        self.in_pass = false;
        let left = self.groups.end();
        let accounted = {
            let mut counts = self.worker().counts.lock();
            if !counts.cut {
                if !planted("pass_dropped") {
                    self.queue.abandoned.fetch_add(counts.in_flight, Ordering::Relaxed);
                }
                counts.in_flight = 0;
            }
            counts.busy_nanos += self.started.elapsed().as_nanos() as u64;
            if counts.cut { Accounted::UpToTheCut } else { Accounted::All }
        };
        drop(left);
        self.end_leases(accounted);
        if !planted("flush_notify") {
            self.queue.pass_waiters.notify_all();
        }
        if !self.queue.is_running() && !planted("close_wake_peers") {
            // What this pass left behind, any thread may take now; or all may end.
            self.queue.wake_all();
        }
    }

    fn end_leases(&mut self, accounted: Accounted) {
        for (id, taken) in self.leased.drain(..) {
            let at = self.queue.partition(id);
            let complete = || {
                if accounted == Accounted::All || planted("flush_after_cut") {
                    at.completed.store(taken, order("flush_publish", Ordering::Release));
                }
            };
            if planted("flush_mark_late") {
                let new = at.ownership().end();
                complete();
                new.into_iter().for_each(|new| self.queue.tell_new_owner(new));
                continue;
            }
            // Before the lease ends: from then on the mark is the next owner's.
            complete();
            if let Some(new) = at.ownership().end().filter(|_| !planted("move_at_pass_end")) {
                self.queue.tell_new_owner(new);
            }
        }
    }
}

impl<T: RingItem + Keyed> BatchQueue<T> {
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

impl<T: RingItem + Keyed> Drop for Drainer<T> {
    fn drop(&mut self) {
        if self.in_pass {
            self.end_pass();
        }
        if let Some(right) = self.right.take() {
            self.worker().give_right_back(right);
        }
        self.queue.pass_waiters.notify_all();
    }
}
