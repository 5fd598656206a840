//! The batch queue: joins routes, partitions and workers.

use super::config::Settings;
use super::drain_group::Grouping;
use super::drain_worker::{self, Worker};
use super::item::{Key, Keyed, PartitionId, ThreadId};
use super::partition::Partition;
use super::partition_layout::Layout;
use super::queue_capacity::QueueCapacity;
use super::rejection::{Rejection, Rejections};
use super::shared_scheduler_board::{PoolSleepers, Registration};
use super::type_route::TypeRoute;
use crate::ring::RingItem;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::plain;
use crate::wait::waiters::Waiters;
use std::time::Duration;

/// A queue of typed items that drain threads hand to handlers in batches.
///
/// It owns no thread: its user runs one [`super::Drainer`] per worker, as [`super::running::Running`] does.
pub struct BatchQueue<T: RingItem + Keyed> {
    id: u64,
    name: String,
    pub(super) settings: Settings,
    pub(super) grouping: Grouping,
    /// The scheduler that drains this queue; `None` if the queue has its own drain threads.
    pub(super) registration: Option<Registration>,
    pub(super) layout: Layout<T>,
    /// The capacity that all partitions share, if there is one.
    pub(super) capacity: Option<QueueCapacity>,
    pub(super) workers: Box<[Worker]>,
    pub(super) closing: AtomicBool,
    pub(super) abandoned: AtomicU64,
    /// Whether a cut abandoned items. `abandoned` cannot tell, because it does not count items without weight.
    pub(super) gave_up: AtomicBool,
    rejections: Rejections,
    pub(super) rebalances: AtomicU64,
    /// Whether a handler wants to be called for every pass that found nothing.
    pub(super) reports_every_idle_pass: AtomicBool,
    /// The callers of a flush or a shutdown, which wait for passes to end.
    pub(super) pass_waiters: Waiters,
    /// The number of flushes under way. While there is one, no thread lets items gather.
    pub(super) flushes: AtomicUsize,
    /// The threads that wait for the close.
    pub(super) close_waiters: Waiters,
}

static NEXT_ID: plain::AtomicU64 = plain::AtomicU64::new(1);

impl<T: RingItem + Keyed> BatchQueue<T> {
    /// Makes a queue with its own threads as workers.
    ///
    /// If there are fewer partitions than threads, the queue has one worker for each partition.
    ///
    /// # Panics
    ///
    /// If the settings are not valid: see [`Settings::validate`].
    pub fn new(name: impl Into<String>, settings: Settings, grouping: Grouping) -> Self {
        let wanted = settings.threads;
        let partitions = settings.partitions.resolve(wanted, 0.0);
        let workers = (0..wanted.min(partitions)).map(|_| Worker::new()).collect();
        Self::with_workers(name, settings, grouping, workers, partitions, None)
    }

    /// Makes a queue whose workers are slots of a scheduler. The caller then adds the queue to that scheduler.
    ///
    /// # Panics
    ///
    /// That of [`Self::new`].
    pub fn on_pool(name: impl Into<String>, settings: Settings, grouping: Grouping, pool: PoolSleepers) -> Self {
        let partitions = settings.partitions.resolve(pool.sleepers.len(), 0.0);
        let workers = pool.sleepers.into_iter().take(partitions).map(Worker::of_pool).collect();
        Self::with_workers(name, settings, grouping, workers, partitions, Some(pool.registration))
    }

    fn with_workers(
        name: impl Into<String>,
        settings: Settings,
        grouping: Grouping,
        workers: Box<[Worker]>,
        partitions: usize,
        registration: Option<Registration>,
    ) -> Self {
        settings.validate().unwrap_or_else(|wrong| panic!("{wrong}"));
        Self {
            id: NEXT_ID.fetch_add(1, plain::Ordering::Relaxed),
            name: name.into(),
            grouping,
            registration,
            layout: Layout::new(&settings, workers.len(), partitions),
            capacity: settings.capacity.map(QueueCapacity::new),
            settings,
            workers,
            closing: AtomicBool::new(false),
            abandoned: AtomicU64::new(0),
            gave_up: AtomicBool::new(false),
            rejections: Rejections::default(),
            rebalances: AtomicU64::new(0),
            reports_every_idle_pass: AtomicBool::new(false),
            pass_waiters: Waiters::new(),
            flushes: AtomicUsize::new(0),
            close_waiters: Waiters::new(),
        }
    }

    /// Returns the queue's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of partitions now.
    pub fn partition_count(&self) -> usize {
        self.layout.partitions().len()
    }

    /// Returns the number of workers.
    pub fn thread_count(&self) -> usize {
        self.workers.len()
    }

    /// Returns the queue's settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the partition of this number.
    pub fn partition(&self, partition: PartitionId) -> &Partition<T> {
        self.layout.partition(partition)
    }

    /// Returns the route of this key.
    #[inline]
    pub fn route(&self, key: Key) -> &TypeRoute {
        self.layout.route(key)
    }

    /// Returns the partitions that each worker owns.
    pub fn assignments(&self) -> Vec<Vec<PartitionId>> {
        let mut owned = vec![Vec::new(); self.workers.len()];
        for (partition, at) in self.layout.partitions().iter().enumerate() {
            owned[usize::from(at.ownership().owner())].push(partition as PartitionId);
        }
        owned
    }

    /// Returns the partition of a key's items. It never changes.
    pub fn partition_of(&self, key: Key) -> PartitionId {
        self.route(key).partition
    }

    /// Adds a type; returns its key, whose partition is chosen now.
    ///
    /// `weight` is the share of a partition that the type's handler needs; 0 for a type without a handler.
    pub fn add_type(&self, weight: f64) -> Key {
        self.layout.add_type(weight)
    }

    /// Changes the weight of a type's handler. Partitions may be added. No type changes its partition.
    pub fn set_weight(&self, key: Key, weight: f64) {
        self.layout.set_weight(key, weight);
    }

    /// Adds partitions until there are `count`. A forked child takes this number over from its parent.
    pub fn grow_to_at_least(&self, count: usize) {
        self.layout.grow_to_at_least(count);
    }

    /// Counts items that were not accepted.
    pub fn count_rejected(&self, reason: Rejection, count: u64) {
        self.rejections.count(reason, count);
    }

    /// Returns the number of items rejected for this reason.
    pub fn rejected(&self, reason: Rejection) -> u64 {
        self.rejections.of(reason)
    }

    /// Whether the current thread is one of this queue's drain threads, inside a pass.
    pub fn is_draining_here(&self) -> bool {
        drain_worker::draining(self.id).is_some()
    }

    /// Runs `work`, the last call of a handler at the end of the queue, as if it were inside a pass. Meanwhile
    /// [`Self::is_draining_here`] is true, so a call that waits for the queue can tell that it would wait for itself.
    pub fn while_draining<R>(&self, work: impl FnOnce() -> R) -> R {
        drain_worker::while_draining(self.id, work)
    }

    pub(super) fn enter(&self, worker: ThreadId) {
        drain_worker::enter(self.id, worker);
    }

    /// Sets whether a handler is called for every pass that found nothing. If so, all idle threads wake up from time to
    /// time. Otherwise they sleep until there is an item.
    pub fn report_idle_passes(&self, enabled: bool) {
        if self.reports_every_idle_pass.swap(enabled, Ordering::Relaxed) != enabled {
            self.wake_all();
        }
    }

    /// Starts (true) or ends (false) idle reports for one key. While a key of a partition has idle reports, the thread
    /// that owns the partition wakes up from time to time.
    pub fn report_idle_passes_of(&self, key: Key, enabled: bool) {
        let count = &self.partition(self.partition_of(key)).idle_reports;
        if enabled {
            count.fetch_add(1, Ordering::Relaxed);
        } else {
            count.fetch_sub(1, Ordering::Relaxed);
        }
        self.wake_all();
    }

    /// Wakes every worker.
    pub fn wake_all(&self) {
        for worker in &self.workers {
            worker.sleeper.wake_always();
        }
    }

    /// Waits up to `timeout`, or until the queue closes; returns whether it is still open.
    pub fn wait_open(&self, timeout: Duration) -> bool {
        let mut waiter = self.close_waiters.enter();
        if self.is_running() {
            waiter.wait(timeout);
        }
        self.is_running()
    }

    /// Whether items are still accepted.
    pub fn is_running(&self) -> bool {
        !self.closing.load(Ordering::Acquire)
    }
}
