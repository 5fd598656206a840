//! `Process`: the part of a queue that a forked child starts anew.

use super::caller_count::CallerCount;
use super::gil_yield::GilYield;
use super::shared_scheduler::Pool;
use super::types::item::Item;
use super::waiting_tasks::WaitingTasks;
use crate::monitoring::histogram::Histogram;
use drainq_core::batch::item::ThreadId;
use drainq_core::batch::rebalance::Rebalancer;
use drainq_core::batch::{BatchQueue, Grouping, Key, Settings};
use drainq_core::sync::Mutex;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const MS: u64 = 1_000_000;

/// The bounds of the histogram of handler calls, in nanoseconds.
const HANDLER_NANOS: [u64; 11] =
    [MS, 5 * MS, 10 * MS, 50 * MS, 100 * MS, 500 * MS, 1_000 * MS, 5_000 * MS, 10_000 * MS, 30_000 * MS, 60_000 * MS];

/// The bounds of the histogram of batch sizes.
const BATCH_SIZES: [u64; 8] = [1, 4, 16, 64, 256, 1_024, 4_096, 16_384];

/// The queue of one process, with its threads.
pub struct Process {
    /// The core's queue.
    pub queue: Arc<BatchQueue<Item>>,
    /// Whether the drain threads were started.
    started: AtomicBool,
    /// The `threading.Thread`s.
    pub threads: Mutex<Vec<Py<PyAny>>>,
    /// The balancer's memory.
    pub rebalancer: Mutex<Rebalancer<Item>>,
    /// The rules by which producers yield the GIL to drain threads.
    pub gil_yield: GilYield,
    /// The asyncio tasks that wait for room, a flush or the end.
    pub waiting_tasks: Arc<WaitingTasks>,
    /// The times of handler calls.
    pub handler_nanos: Histogram,
    /// The numbers of items of handler calls.
    pub batch_sizes: Histogram,
    /// For each key the lock that keeps the calls of its handler apart, if several threads drain a type. The lock
    /// belongs to the type: another handler, or the same one registered again, comes under the same lock. A forked
    /// child has new locks, because a thread of the parent may hold an old one.
    serials: Mutex<Vec<Arc<Mutex<()>>>>,
    /// The threads that may call the user's callables.
    pub callers: Arc<CallerCount>,
}

impl Process {
    /// Makes a queue whose threads are not started.
    pub fn new(name: &str, settings: Settings, grouping: Grouping, pool: Option<&Pool>) -> Self {
        let queue = Arc::new(match pool {
            Some(pool) => BatchQueue::on_pool(name, settings, grouping, pool.scheduler().sleepers()),
            None => BatchQueue::new(name, settings, grouping),
        });
        Self {
            rebalancer: Mutex::new(Rebalancer::new(queue.clone())),
            waiting_tasks: Arc::new(WaitingTasks::new(queue.clone())),
            queue,
            started: AtomicBool::new(false),
            threads: Mutex::default(),
            gil_yield: GilYield::new(),
            handler_nanos: Histogram::new(&HANDLER_NANOS, 1e9),
            batch_sizes: Histogram::new(&BATCH_SIZES, 1.0),
            serials: Mutex::default(),
            callers: Arc::new(CallerCount::new()),
        }
    }

    /// Returns the lock that keeps the calls of this key's handler apart.
    pub fn serial(&self, key: Key) -> Arc<Mutex<()>> {
        let mut serials = self.serials.lock();
        if serials.len() <= key as usize {
            serials.resize_with(key as usize + 1, Arc::default);
        }
        serials[key as usize].clone()
    }

    /// Gives the right to start the drain threads: true once.
    pub fn claim_start(&self) -> bool {
        !self.started.swap(true, Ordering::Relaxed)
    }

    /// Whether the drain threads were started.
    #[inline]
    pub fn is_started(&self) -> bool {
        self.started.load(Ordering::Relaxed)
    }

    /// Returns the numbers of the drain threads.
    pub fn worker_ids(&self) -> impl Iterator<Item = ThreadId> + use<> {
        0..self.queue.thread_count() as ThreadId
    }
}
