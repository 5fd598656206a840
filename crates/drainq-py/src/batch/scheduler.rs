//! Shared schedulers: named pools of drain threads, made when first asked for.

use super::callers::Caller;
use super::drain::serve;
use super::types::item::Item;
use crate::fork::{self, ForkCell, Renew};
use crate::{errors, gil, thread};
use drainq_core::batch::ThreadPolicy;
use drainq_core::batch::scheduler::Scheduler;
use drainq_core::sync::Mutex;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// The scheduler of the core, with the right to call a queue's handlers as what is found again. A
/// queue that has ended is dropped from it, and the right with it.
pub type PoolScheduler = Scheduler<Item, Caller>;

/// The part of a pool that a forked child starts anew.
struct Process {
    scheduler: Arc<PoolScheduler>,
    started: AtomicBool,
}

impl Process {
    fn new(policy: ThreadPolicy) -> Self {
        Self { scheduler: Arc::new(Scheduler::new(policy.resolve())), started: AtomicBool::new(false) }
    }
}

/// A named pool of drain threads.
pub struct Pool {
    name: String,
    policy: ThreadPolicy,
    process: ForkCell<Process>,
}

static POOLS: Mutex<Vec<Arc<Pool>>> = Mutex::new(Vec::new());

impl Pool {
    /// The pool of this name, made by `policy` if there is none; a pool with another policy
    /// stays as it is, with a warning.
    pub fn get_or_create(py: Python<'_>, name: &str, policy: ThreadPolicy) -> PyResult<Arc<Self>> {
        let pool = {
            let mut pools = POOLS.lock();
            let found = pools.iter().find(|pool| pool.name == name).cloned();
            found.unwrap_or_else(|| {
                let pool =
                    Arc::new(Self { name: name.to_owned(), policy, process: ForkCell::new(Process::new(policy)) });
                fork::register(Arc::downgrade(&pool) as Weak<dyn Renew>);
                pools.push(pool.clone());
                pool
            })
        };
        if pool.policy != policy {
            let repr =
                |policy| Bound::new(py, super::policy::ThreadPolicy(policy))?.repr().map(|text| text.to_string());
            errors::warn(
                py,
                &format!(
                    "the shared scheduler {name:?} exists with {}, which stays (asked for: {})",
                    repr(pool.policy)?,
                    repr(policy)?
                ),
            )?;
        }
        Ok(pool)
    }

    /// The scheduler of this process.
    pub fn scheduler(&self) -> &Arc<PoolScheduler> {
        &self.process.get().scheduler
    }

    /// Starts the threads, unless that was done.
    pub fn start_threads(&self, py: Python<'_>) -> PyResult<()> {
        let process = self.process.get();
        if process.started.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        for id in 0..process.scheduler.threads() {
            let scheduler = process.scheduler.clone();
            thread::start(py, &format!("drainq-pool-{}-{id}", self.name), move |py| run(py, &scheduler))?;
        }
        Ok(())
    }
}

/// Lets all pools end with their last queue; the next queue makes new ones.
pub fn stop_all() {
    // Moved out first: the end of a pool's last reference may run Python code.
    let pools = std::mem::take(&mut *POOLS.lock());
    pools.iter().for_each(|pool| pool.scheduler().stop());
}

impl Renew for Pool {
    /// A pool without threads or queues. It is older than its queues, so they find it new.
    fn renew_in_child(&self, _py: Python<'_>) {
        self.process.replace_in_child(Process::new(self.policy));
    }
}

/// A pool thread's life.
fn run(py: Python<'_>, scheduler: &PoolScheduler) {
    let (mut me, mut last) = (scheduler.thread(), None);
    loop {
        let given_back = last.take();
        let next = gil::released(py, || {
            drop(given_back);
            me.borrow()
        });
        let Some(mut loan) = next else { return };
        let shared = loan.context().shared().clone();
        if serve(py, &shared, loan.drainer()) {
            loan.found();
        }
        last = Some(loan);
    }
}
