//! A queue with producers, drain threads and checkers around it, for tests of the whole.
//!
//! Each handler keeps plain memory of its own. Each call checks that no other thread is in the handler, and that the
//! items of each producer come in the order in which they were produced. In the end the counts of the handlers are
//! compared with those of the producers.

#![allow(dead_code, reason = "each test program uses its part")]

use drainq_core::append_only_table::Table;
use drainq_core::batch::shared_scheduler::Scheduler;
use drainq_core::batch::{BatchQueue, Drainer, Key, Keyed, Outcome, PartitionId, Pass, Rejection, Step};
use drainq_core::ring::Refusal;
use drainq_core::sync::atomic::Ordering as ModelOrdering;
use drainq_core::sync::{Arc, Mutex, atomic, thread};
use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How long a producer waits for room before it tries again.
const SLICE: Duration = Duration::from_millis(20);

/// An item: its key, its producer, and its number among the items of that producer and key.
pub struct Item {
    pub key: Key,
    pub producer: u32,
    pub number: u64,
}

impl Keyed for Box<Item> {
    fn key(&self) -> Key {
        self.key
    }
}

pub type Queue = BatchQueue<Box<Item>>;

/// One handler: it fails each `fail_every`th call, if that is not 0.
pub struct Handler {
    /// Whether a thread is inside. Accessed Relaxed, so that the check puts no order between threads and hides no race.
    inside: AtomicBool,
    /// The last number of each producer, and the number of calls: plain memory.
    memory: UnsafeCell<(HashMap<u32, u64>, u64)>,
    fail_every: u64,
    seen: AtomicU64,
    sum: AtomicU64,
}

// SAFETY: `memory` is touched by one thread at a time: that is what the tests check, by
// `inside`, and under ThreadSanitizer by the access itself.
unsafe impl Send for Handler {}
// SAFETY: as above.
unsafe impl Sync for Handler {}

impl Handler {
    fn new(fail_every: u64) -> Self {
        Self {
            inside: AtomicBool::new(false),
            memory: UnsafeCell::default(),
            fail_every,
            seen: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }

    fn consume(&self, batch: &[Box<Item>]) -> Outcome {
        assert!(!self.inside.swap(true, Ordering::Relaxed), "two threads are in one handler");
        // SAFETY: nobody else is in the handler: just asserted.
        let (last, calls) = unsafe { &mut *self.memory.get() };
        for item in batch {
            let before = last.insert(item.producer, item.number);
            assert!(before.is_none_or(|before| before < item.number), "out of order: {} after {before:?}", item.number);
            self.sum.fetch_add(item.number, Ordering::Relaxed);
        }
        self.seen.fetch_add(batch.len() as u64, Ordering::Relaxed);
        *calls += 1;
        let fails = self.fail_every > 0 && calls.is_multiple_of(self.fail_every);
        thread::yield_now();
        self.inside.store(false, Ordering::Relaxed);
        if fails { Outcome::Failed } else { Outcome::Handled }
    }
}

/// What all producers did, in items.
#[derive(Default)]
pub struct Produced {
    pub offered: AtomicU64,
    pub accepted: AtomicU64,
    /// Sum of the numbers accepted, which no other set of items is likely to have.
    pub sum: AtomicU64,
}

/// Threads that several queues share.
pub type Pool = Scheduler<Box<Item>, Arc<World>>;

/// Drains the queues of a pool as one of its threads, until the pool is stopped and all queues have ended.
pub fn serve(pool: &Pool) {
    let mut me = pool.thread();
    while let Some(mut loan) = me.borrow() {
        let world = loan.context().clone();
        let Some(Step::Pass(pass)) = loan.step() else { continue };
        world.hand_out(pass);
        loan.found();
    }
}

/// The queue, its handlers by key, and what was produced.
pub struct World {
    pub queue: Arc<Queue>,
    /// By key; read without a lock, which would put an order between passes.
    handlers: Table<Handler>,
    registration: Mutex<()>,
    /// The producers' lock, if they share one; the producers of Python share the GIL.
    lock: Option<Mutex<()>>,
    pub produced: Produced,
    pub stopped: atomic::AtomicBool,
}

impl World {
    /// Makes a world around a queue whose producers share a lock, or no lock.
    pub fn new(queue: Queue, locked: bool) -> Arc<Self> {
        Arc::new(Self {
            lock: locked.then(|| Mutex::new(())),
            queue: Arc::new(queue),
            handlers: Table::new(),
            registration: Mutex::new(()),
            produced: Produced::default(),
            stopped: atomic::AtomicBool::new(false),
        })
    }

    /// Adds a type with its own handler.
    pub fn add_handler(&self, weight: f64, fail_every: u64) -> Key {
        let _one_at_a_time = self.registration.lock();
        let key = self.queue.add_type(weight);
        assert_eq!(self.handlers.push_with(|_| Handler::new(fail_every)), key as usize);
        key
    }

    pub fn stop(&self) {
        self.stopped.store(true, ModelOrdering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(ModelOrdering::Relaxed)
    }

    /// Produces one item, and waits for room if there is none. Returns false once the queue is closed.
    pub fn produce(&self, producer: u32, key: Key, number: u64) -> bool {
        self.produced.offered.fetch_add(1, Ordering::Relaxed);
        let partition = self.queue.partition_of(key);
        let mut item = match self.try_produce(partition, Box::new(Item { key, producer, number })) {
            Ok(()) => return self.accepted(number),
            Err((item, _)) => item,
        };
        let mut waiter = self.queue.wait_for_room(partition);
        loop {
            match self.try_produce(partition, item) {
                Ok(()) => {
                    waiter.served();
                    return self.accepted(number);
                }
                Err((_, Refusal::Closed | Refusal::NoMemory)) => {
                    self.queue.count_rejected(Rejection::Closed, 1);
                    return false;
                }
                Err((back, Refusal::Full)) => item = back,
            }
            waiter.wait(SLICE);
        }
    }

    fn try_produce(&self, partition: PartitionId, item: Box<Item>) -> Result<(), (Box<Item>, Refusal)> {
        let Some(lock) = &self.lock else { return self.queue.try_produce_to(partition, item) };
        let _alone = lock.lock();
        let (at, mut item) = (self.queue.partition(partition), Some(item));
        // SAFETY: every produce call and the close are made under the lock.
        if unsafe { at.push_fast(|| item.take().expect("asked for once")) } {
            return Ok(());
        }
        // SAFETY: as above.
        unsafe { self.queue.try_produce_at(at, item.take().expect("the fast path was closed")) }
    }

    /// Closes the queue.
    pub fn close(&self) {
        let _alone = self.lock.as_ref().map(Mutex::lock);
        self.queue.close();
    }

    /// Gives up on what is queued.
    pub fn cut(&self) {
        let _alone = self.lock.as_ref().map(Mutex::lock);
        self.queue.cut();
    }

    fn accepted(&self, number: u64) -> bool {
        self.produced.accepted.fetch_add(1, Ordering::Relaxed);
        self.produced.sum.fetch_add(number, Ordering::Relaxed);
        true
    }

    /// Drains as worker `me` until the queue is closed and empty, or cut.
    pub fn drain(&self, me: u16) {
        let mut drainer = Drainer::new(self.queue.clone(), me);
        loop {
            let sync_with_producers = |close_fast_path: &dyn Fn()| {
                if let Some(lock) = &self.lock {
                    let _alone = lock.lock();
                    close_fast_path();
                }
            };
            match drainer.next_step(sync_with_producers) {
                Step::Pass(pass) => self.hand_out(pass),
                Step::Idle(_) => continue,
                Step::Closed => return,
            }
        }
    }

    fn hand_out(&self, mut pass: Pass<'_, Box<Item>>) {
        while let Some(batch) = pass.next_batch() {
            let handler = self.handlers.get(batch.key as usize).expect("registered with its key");
            let outcome = handler.consume(&batch.items);
            let size = batch.size;
            if !pass.account(batch, &[(outcome, size)]) {
                break;
            }
        }
    }

    /// Asserts that every item is accounted for exactly, after all threads have ended.
    pub fn assert_exact(&self) {
        let now = self.queue.snapshot();
        let produced = &self.produced;
        assert_eq!(now.queued, 0, "nothing is left");
        assert_eq!(now.accepted, produced.accepted.load(Ordering::Relaxed));
        assert_eq!(now.accepted + now.rejected.iter().sum::<u64>(), produced.offered.load(Ordering::Relaxed));
        let ended = now.outcomes().total();
        assert_eq!(now.accepted, ended + now.abandoned);
        if now.abandoned == 0 {
            let seen: u64 = self.handlers.iter().map(|handler| handler.seen.load(Ordering::Relaxed)).sum();
            let sum: u64 = self.handlers.iter().map(|handler| handler.sum.load(Ordering::Relaxed)).sum();
            assert_eq!((seen, sum), (now.accepted, produced.sum.load(Ordering::Relaxed)), "each item once");
            for (key, counts) in now.types.iter().enumerate() {
                let seen = self.handlers.get(key).expect("each type has one").seen.load(Ordering::Relaxed);
                assert_eq!(
                    (counts.accepted, counts.outcomes.handled + counts.outcomes.failed),
                    (seen, seen),
                    "type {key}"
                );
            }
        }
    }

    /// Asserts what must hold at any moment, also in the middle of everything.
    pub fn assert_accounted(&self) {
        let now = self.queue.snapshot();
        let ended = now.outcomes().total();
        assert_eq!(now.accepted, ended + now.abandoned + now.queued, "{now:?}");
    }
}
