//! Shared schedulers: named pools of drain threads, made when the first queue asks for one.
//!
//! A pool does not know queues: its threads borrow a drainer and serve it ([`Serve`]).

use super::types::item::Item;
use crate::fork::{self, ForkCell, Renew};
use crate::{errors, gil, thread};
use drainq_core::batch::shared_scheduler::{Loan, Scheduler};
use drainq_core::sync::Mutex;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// The drain side of a queue, as the threads of a pool see it.
pub trait Serve: Send + Sync {
    /// Makes one pass, and its handler calls, with a borrowed drainer of the queue.
    fn serve(&self, py: Python<'_>, loan: &mut PoolLoan<'_>) -> Served;
}

/// The result of a step of a drain thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Served {
    /// There were items, which were delivered.
    Items,
    /// There was no item.
    Nothing,
    /// The queue is closed, and there will be no more items.
    Closed,
}

/// The scheduler of the core. The scheduler drops a queue that has ended, and the right to call the queue's handlers
/// with it.
pub type PoolScheduler = Scheduler<Item, Arc<dyn Serve>>;

/// A drainer of one of the queues of a pool, on loan to a thread.
pub type PoolLoan<'a> = Loan<'a, Item, Arc<dyn Serve>>;

/// The threads of a pool, which a forked child starts anew.
struct PoolThreads {
    scheduler: Arc<PoolScheduler>,
    /// Threads that run, or are being started.
    started: AtomicUsize,
}

impl PoolThreads {
    /// Gives the right to start one more thread, and its number; None if there are enough.
    fn claim_start(&self) -> Option<usize> {
        let one_more = |started| (started < self.scheduler.threads()).then_some(started + 1);
        self.started.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()
    }

    fn new(threads: usize) -> Self {
        Self { scheduler: Arc::new(Scheduler::new(threads)), started: AtomicUsize::new(0) }
    }
}

/// A named pool of drain threads.
pub struct Pool {
    name: String,
    /// The policy that led to the number of threads, as Python shows it.
    policy: String,
    threads: ForkCell<PoolThreads>,
}

static POOLS: Mutex<Vec<Arc<Pool>>> = Mutex::new(Vec::new());

impl Pool {
    /// Returns the pool of this name, made with this many threads if there is none; a pool with another policy
    /// stays as it is, with a warning.
    pub fn get_or_create(py: Python<'_>, name: &str, threads: usize, policy: String) -> PyResult<Arc<Self>> {
        let pool = {
            let mut pools = POOLS.lock();
            let found = pools.iter().find(|pool| pool.name == name).cloned();
            found.unwrap_or_else(|| {
                let threads = ForkCell::new(PoolThreads::new(threads));
                let pool = Arc::new(Self { name: name.to_owned(), policy: policy.clone(), threads });
                fork::register(Arc::downgrade(&pool) as Weak<dyn Renew>);
                pools.push(pool.clone());
                pool
            })
        };
        if pool.policy != policy {
            let message = "which stays (asked for:";
            errors::warn(
                py,
                &format!("the shared scheduler {name:?} exists with {}, {message} {policy})", pool.policy),
            )?;
        }
        Ok(pool)
    }

    /// Returns the scheduler of this process.
    pub fn scheduler(&self) -> &Arc<PoolScheduler> {
        &self.threads.get().scheduler
    }

    /// Starts the threads that do not run yet. A thread that could not be started is left to the next call.
    pub fn start_threads(&self, py: Python<'_>) -> PyResult<()> {
        let threads = self.threads.get();
        while let Some(id) = threads.claim_start() {
            let scheduler = threads.scheduler.clone();
            let name = format!("drainq-pool-{}-{id}", self.name);
            if let Err(error) = thread::start(py, &name, move |py| run(py, &scheduler)) {
                threads.started.fetch_sub(1, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Lets all pools end with their last queue; the next queue makes new ones.
pub fn stop_all() {
    // Moved out of the lock first, because dropping the last reference to a pool may run Python code.
    let pools = std::mem::take(&mut *POOLS.lock());
    pools.iter().for_each(|pool| pool.scheduler().stop());
}

impl Renew for Pool {
    /// Empties the pool. A pool is renewed before its queues, because it is older.
    fn renew_in_child(&self, _py: Python<'_>) {
        self.threads.replace_in_child(PoolThreads::new(self.scheduler().threads()));
    }
}

/// Runs a thread of a pool: borrows drainers with work and has them served, until the pool was stopped and its
/// last queue has ended.
fn run(py: Python<'_>, scheduler: &PoolScheduler) {
    let (mut me, mut last) = (scheduler.thread(), None);
    loop {
        let given_back = last.take();
        let next = gil::released(py, || {
            drop(given_back);
            me.borrow()
        });
        let Some(mut loan) = next else { return };
        let queue = loan.context().clone();
        if queue.serve(py, &mut loan) == Served::Items {
            loan.found();
        }
        last = Some(loan);
    }
}
