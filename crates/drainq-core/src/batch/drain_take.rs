//! The first half of a pass: a drain thread takes the queued items of its partitions and groups them by type.
//!
//! `drain_hand_out.rs` hands the groups out and ends the pass. The thread owns these partitions from the first take to
//! the end of the pass, handler calls included, so one thread at a time has the items of a type even if a partition
//! changes its owner.
//!
//! # Invariants
//! 1. A worker has one drainer at a time.
//! 2. A drainer takes items between `Ownership::begin` and `Ownership::end`, under its worker's lock. Only a drainer
//!    begins a pass over a partition, and the same drainer ends the pass.
//! 3. A pass takes at most `max_batch` items per partition, and stops once it holds [`PASS`] times as many: so it ends.
//!    The next pass starts after the partition where this one stopped or, if it visited all, after its first partition.

use super::drain_group::Groups;
use super::drain_idle_sleep::Arrivals;
use super::drain_worker::{DrainRight, Worker};
use super::item::{Key, Keyed, PartitionId, ThreadId};
use super::queue::BatchQueue;
use crate::ring::RingItem;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, Parker, planted};
use crate::wait::sleeper::Depth;
use std::time::{Duration, Instant};

/// A pass stops taking once it holds this many times `max_batch` items.
const PASS: usize = 4;

/// The epoch of a drainer after the close of its queue, when every thread drains every partition.
const CLOSING: u64 = u64::MAX;

/// Drains one queue as one of its workers.
pub struct Drainer<T: RingItem + Keyed> {
    pub(super) queue: Arc<BatchQueue<T>>,
    me: ThreadId,
    /// The right to drain. It goes back to the worker when this drainer is dropped.
    right: Option<DrainRight>,
    /// Whether a pass was begun and has not ended.
    pub(super) in_pass: bool,
    /// The partitions that this thread owned at `epoch`.
    pub(super) mine: Vec<PartitionId>,
    epoch: u64,
    /// The index in `mine` at which the next pass starts, so that no partition always comes last.
    turn: usize,
    /// The number of passes since the last that found an item.
    pub(super) empty_passes: u32,
    /// The frequency of items, which decides how deep the thread sleeps.
    arrivals: Arrivals,
    /// Whether an idle report followed the last pass, so that the next step is a sleep.
    pub(super) has_reported_idle: bool,
    /// Whether the thread runs while its producers see it as idle, because the time of its sleep ran out (invariant 4
    /// of `wait/sleeper.rs`).
    pub(super) is_still_idle: bool,
    /// Whether the linger time for the items that wait now has passed.
    pub(super) lingered: bool,
    /// Items on their way from a ring to their groups; empty between two takes.
    taken: Vec<T>,
    /// The partitions of the pass under way, each with the ring index up to which it took.
    pub(super) held: Vec<(PartitionId, u64)>,
    /// The items of the pass that are not handed out yet.
    pub(super) groups: Groups<T>,
    /// When the pass took its items.
    pub(super) started: Instant,
}

impl<T: RingItem + Keyed> Drainer<T> {
    /// Makes the drainer of worker `me`.
    ///
    /// # Panics
    ///
    /// If there is no such worker, or if it has a drainer.
    pub fn new(queue: Arc<BatchQueue<T>>, me: ThreadId) -> Self {
        let groups = Groups::new(queue.grouping, queue.settings.max_batch, queue.settings.weighed);
        let right = queue.workers[usize::from(me)].take_right();
        assert!(right.is_some() || planted("worker_claim"), "worker {me} of queue {:?} has a drainer", queue.name());
        let arrivals = Arrivals::new(Instant::now(), queue.thread_count());
        Self {
            queue,
            me,
            right,
            in_pass: false,
            mine: Vec::new(),
            epoch: 0,
            turn: 0,
            empty_passes: 0,
            arrivals,
            has_reported_idle: false,
            is_still_idle: false,
            lingered: false,
            taken: Vec::new(),
            held: Vec::new(),
            groups,
            started: Instant::now(),
        }
    }

    /// Returns the queue that is drained.
    pub fn queue(&self) -> &Arc<BatchQueue<T>> {
        &self.queue
    }

    /// Returns the thread number.
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
                || self.queue.layout.partitions().iter().all(|at| at.ring.is_closed() && at.ring.is_empty()))
    }

    /// Whether this thread owns the partition of `key` and its last pass took no item of `key`.
    pub fn found_nothing_for(&self, key: Key) -> bool {
        self.queue.partition(self.queue.partition_of(key)).ownership().owner() == self.me && !self.groups.holds(key)
    }

    /// Whether a handler wants to be called when a pass of this thread finds nothing for it.
    pub fn reports_idle_passes(&self) -> bool {
        let reports = |id: &PartitionId| self.queue.partition(*id).idle_reports.load(Ordering::Relaxed) > 0;
        self.queue.reports_every_idle_pass.load(Ordering::Relaxed) || self.mine.iter().any(reports)
    }

    /// Returns how deep and how long the thread sleeps after this number of empty passes in a row.
    pub(super) fn next_sleep(&mut self, empty_passes: u32) -> (Depth, Option<Duration>) {
        let wakes_by_itself = self.reports_idle_passes();
        self.arrivals.next_sleep(empty_passes, &self.queue.settings, wakes_by_itself)
    }

    /// Whether the thread must not sleep: a pass would find an item, `mine` is out of date, or the drainer is finished.
    pub fn has_work(&self) -> bool {
        if !self.queue.is_running() {
            let mut partitions = self.queue.layout.partitions().iter();
            return self.epoch != CLOSING
                || self.is_finished()
                || partitions.any(|at| !at.ring.is_empty() && !at.ownership().is_busy());
        }
        self.queue.layout.epoch() != self.epoch || self.mine.iter().any(|id| !self.queue.partition(*id).ring.is_empty())
    }

    /// Updates `mine` if the assignment may have changed. After the close every thread drains every partition.
    pub(super) fn refresh(&mut self) {
        let closing = !self.queue.is_running();
        let epoch = if closing { CLOSING } else { self.queue.layout.epoch() };
        if epoch != self.epoch {
            self.epoch = epoch;
            let me = self.me;
            let ids = (0..).zip(self.queue.layout.partitions().iter());
            self.mine = ids.filter(|(_, at)| closing || at.ownership().owner() == me).map(|(id, _)| id).collect();
        }
    }

    /// Takes the items that the partitions hold; returns whether there were any.
    pub(super) fn take(&mut self) -> bool {
        if self.in_pass && !planted("pass_forgotten") {
            // The user forgot the last `Pass` instead of dropping it.
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
            // SAFETY: this drainer is between `begin` and `end` of the partition's ownership (invariant 2). At most one
            // drainer at a time is there, and the ownership orders the passes. The cut of a shutdown takes items under
            // the counts locks of all workers, and this thread holds one of these locks.
            let taken = unsafe { at.ring.take(queue.settings.max_batch, &mut self.taken) };
            self.held.push((id, at.ring.taken()));
            if planted("weights_notify_early") {
                at.room_waiters.notify(taken);
            }
            let weight = at.weights.took(&self.taken);
            match &self.queue.capacity {
                Some(capacity) => capacity.free(weight),
                None if planted("weights_notify_early") => {}
                None => at.room_waiters.notify(taken),
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
            self.end_empty_pass();
            return false;
        }
        self.in_pass = true;
        self.groups.tally(|key, count| queue.route(key).count_taken(count));
        counts.in_pass = true;
        counts.cycles += 1;
        self.empty_passes = 0;
        self.arrivals.took(total);
        self.has_reported_idle = false;
        self.lingered = false;
        self.started = Instant::now();
        true
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

#[cfg(all(test, not(any(loom, drainq_shuttle))))]
mod tests {
    use super::*;
    use crate::batch::{Grouping, Settings, Step};

    struct Seen;

    impl Keyed for Box<Seen> {
        fn key(&self) -> Key {
            0
        }
    }

    #[test]
    fn a_thread_naps_once_after_frequent_items_and_else_sleeps_until_the_next_item() {
        let mut settings = Settings::new(1);
        // This nap is so short that each pass ends a span.
        settings.min_idle = Duration::from_nanos(1);
        let queue: BatchQueue<Box<Seen>> = BatchQueue::new("rare", settings, Grouping::ByKey);
        let mut drainer = Drainer::new(Arc::new(queue), 0);
        assert_eq!(drainer.next_sleep(1), (Depth::Idle, None), "no item so far");
        drainer.arrivals.took(usize::MAX);
        assert_eq!(drainer.next_sleep(1), (Depth::Idle, None), "many at once");
        drainer.arrivals.took(usize::MAX);
        assert_eq!(drainer.next_sleep(1), (Depth::Nap, Some(Duration::from_nanos(1))), "billions in no time");
        assert_eq!(drainer.next_sleep(2), (Depth::Idle, None), "nothing after the nap");
        drainer.queue.report_idle_passes(true);
        assert_eq!(drainer.next_sleep(3), (Depth::Idle, Some(Duration::from_micros(50))), "wakes by itself");
    }

    #[test]
    fn an_alarm_that_comes_late_does_not_end_the_gathering() {
        let mut settings = Settings::new(1);
        settings.linger = Duration::from_millis(30);
        let queue = Arc::new(BatchQueue::<Box<Seen>>::new("gathers", settings, Grouping::ByKey));
        let key = queue.add_type(1.0);
        assert_eq!(key, 0);
        assert!(queue.try_produce(Box::new(Seen)).is_ok());
        let mut drainer = Drainer::new(queue, 0);
        drainer.worker().sleeper.wake_always();
        let started = Instant::now();
        assert!(matches!(drainer.next_step(|_| {}), Step::Pass(_)));
        assert!(started.elapsed() >= Duration::from_millis(30));
    }
}
