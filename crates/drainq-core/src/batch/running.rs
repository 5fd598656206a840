//! Drain threads for a program in Rust: handlers by key, one thread per worker.
//!
//! # Invariants
//! 1. The threads live no longer than the [`Running`], unless a handler drops it: the drop closes the queue and waits
//!    for the threads, so every accepted item is handed out.
//! 2. A handler never waits for its own thread: a shutdown that a handler calls closes the queue and returns.

use super::drain_group::Batch;
use super::drain_hand_out::Pass;
use super::drain_step::Step;
use super::drain_take::Drainer;
use super::item::{Key, Keyed, ThreadId};
use super::outcome_counters::Outcome;
use super::queue::BatchQueue;
use crate::ring::RingItem;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Arc, Mutex, planted};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Handles batches.
pub trait BatchHandler<T>: Send + Sync {
    /// Handles a batch. A batch whose call panics counts as failed; later batches are still handled.
    fn consume(&self, batch: &mut Vec<T>);

    /// Runs when a pass found nothing for this handler, if the queue reports idle passes:
    /// [`BatchQueue::report_idle_passes`], [`BatchQueue::report_idle_passes_of`].
    fn on_idle(&self) {}
}

impl<T, F: Fn(&mut Vec<T>) + Send + Sync> BatchHandler<T> for F {
    fn consume(&self, batch: &mut Vec<T>) {
        self(batch);
    }
}

type HandlersByKey<T> = Arc<Mutex<HashMap<Key, Arc<Box<dyn BatchHandler<T>>>>>>;

/// A queue with its own threads and a handler per key.
///
/// Dropping it shuts the queue down: see [`Running::shutdown`].
///
/// ```
/// use drainq_core::batch::running::Running;
/// use drainq_core::batch::{BatchQueue, Grouping, Key, Keyed, Settings};
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::sync::Arc;
///
/// struct Hit { key: Key, bytes: u64 }
/// impl Keyed for Box<Hit> { fn key(&self) -> Key { self.key } }
///
/// let settings = Settings::new(1);
/// let running = Running::start(BatchQueue::new("hits", settings, Grouping::ByKey));
/// let total = Arc::new(AtomicU64::new(0));
/// let sum = total.clone();
/// let key = running.add_handler(1.0, move |batch: &mut Vec<Box<Hit>>| {
///     sum.fetch_add(batch.iter().map(|hit| hit.bytes).sum(), Ordering::Relaxed);
/// });
/// for bytes in 1..=10 {
///     assert!(running.queue().try_produce(Box::new(Hit { key, bytes })).is_ok());
/// }
/// running.shutdown();
/// assert_eq!(total.load(Ordering::Relaxed), 55);
/// ```
pub struct Running<T: RingItem + Keyed> {
    queue: Arc<BatchQueue<T>>,
    handlers: HandlersByKey<T>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl<T: RingItem + Keyed> Running<T> {
    /// Starts the queue's drain threads.
    pub fn start(queue: BatchQueue<T>) -> Self {
        let queue = Arc::new(queue);
        let handlers = HandlersByKey::default();
        let start = |me: usize| {
            let (queue, handlers) = (queue.clone(), handlers.clone());
            thread::spawn(move || run(Drainer::new(queue, me as ThreadId), &handlers))
        };
        let threads = (0..queue.thread_count()).map(start).collect();
        Self { queue, handlers, threads: Mutex::new(threads) }
    }

    /// Returns the queue.
    pub fn queue(&self) -> &Arc<BatchQueue<T>> {
        &self.queue
    }

    /// Registers a handler for a new key.
    pub fn add_handler(&self, weight: f64, handler: impl BatchHandler<T> + 'static) -> Key {
        let key = self.queue.add_type(weight);
        self.handlers.lock().insert(key, Arc::new(Box::new(handler)));
        key
    }

    /// Closes the queue and waits until everything accepted was handed out. A second caller waits for that too. A call
    /// from a handler of this queue only closes the queue, because the handler's own thread must continue.
    ///
    /// # Panics
    ///
    /// If a drain thread panicked. A handler's panic does not end its drain thread.
    pub fn shutdown(&self) {
        assert!(self.end(), "a drain thread survives its handlers");
    }

    /// Closes the queue and waits for its threads. Returns false if a thread panicked.
    fn end(&self) -> bool {
        self.queue.close();
        if self.queue.is_draining_here() && !planted("running_own_thread") {
            return true;
        }
        // The lock is held until all threads have ended, so a second caller waits for them too.
        let mut threads = self.threads.lock();
        let ended: Vec<_> = threads.drain(..).map(JoinHandle::join).collect();
        ended.iter().all(Result::is_ok)
    }
}

impl<T: RingItem + Keyed> Drop for Running<T> {
    fn drop(&mut self) {
        if !planted("running_drop") {
            self.end();
        }
    }
}

fn run<T: RingItem + Keyed>(mut drainer: Drainer<T>, handlers: &HandlersByKey<T>) {
    loop {
        match drainer.next_step(|_| {}) {
            Step::Pass(pass) => hand_out(pass, handlers),
            Step::Idle(drainer) => {
                let all: Vec<_> = handlers.lock().iter().map(|(key, at)| (*key, at.clone())).collect();
                all.iter().filter(|(key, _)| drainer.found_nothing_for(*key)).for_each(|(_, at)| at.on_idle());
            }
            Step::Closed => return,
        }
    }
}

fn hand_out<T: RingItem + Keyed>(mut pass: Pass<'_, T>, handlers: &HandlersByKey<T>) {
    while let Some(mut batch) = pass.next_batch() {
        let handler = handlers.lock().get(&batch.key).cloned();
        let outcome = handler.map_or(Outcome::Unrouted, |handler| call(&**handler, &mut batch));
        let size = batch.size;
        if !pass.account(batch, &[(outcome, size)]) {
            break;
        }
    }
}

fn call<T>(handler: &dyn BatchHandler<T>, batch: &mut Batch<T>) -> Outcome {
    match catch_unwind(AssertUnwindSafe(|| handler.consume(&mut batch.items))) {
        Ok(()) => Outcome::Handled,
        Err(_) => Outcome::Failed,
    }
}
