//! Models: each argument about orderings and wake-ups, as a test of every interleaving.
//!
//! Under `--cfg loom` a model runs in every interleaving that Rust's memory model allows, up to a number of
//! preemptions (`LOOM_MAX_PREEMPTIONS`); in a plain build the same body runs on real threads. A lost wake-up is a
//! deadlock, because in a model no sleep has a timeout.
//!
//! `scripts/mutants/core.py` plants one fault after the other and names the model that must fail.
//!
//! | module | argument |
//! | --- | --- |
//! | [`ring`] | claim, publish, take, free, close; segments |
//! | [`append_only_table`] | a reader of the length sees the element |
//! | [`ownership`] | revoke, cycle fence, assign |
//! | [`sleeper`] | a thread falls asleep while an item is published |
//! | [`waiters`] | producers that wait for room |
//! | [`tickets`] | waiters under the lock of their queue |
//! | [`lines`] | lines of waiters for what changes without their lock |
//! | [`moves`] | the real queue: partitions that change their owner, growth |
//! | [`weights`] | the real queue, whose items have weights |
//! | [`queue_capacity`] | the real queue, whose partitions share a capacity |
//! | [`pool`] | the real queue, on threads that it shares |
//! | [`ends`] | the real queue: flush, close, cut |

mod append_only_table;
mod ends;
mod lines;
mod moves;
mod ownership;
mod pool;
mod queue_capacity;
mod ring;
mod sleeper;
mod tickets;
mod waiters;
mod weights;

use crate::batch::{BatchQueue, Drainer, Grouping, Key, Keyed, Outcome, PartitionPolicy, Settings, Step};
use crate::ring::{Inline, RingItem};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::plain;
use crate::sync::{Arc, UnsafeCell};
use std::collections::BTreeSet;
use std::time::Duration;

/// A number that is not atomic: a model fails if two threads touch it without an order
/// between them.
pub struct Plain(UnsafeCell<u32>);

// SAFETY: that no two threads touch the cell at once is what the models show.
unsafe impl Send for Plain {}
// SAFETY: as above.
unsafe impl Sync for Plain {}

impl Plain {
    pub fn new(value: u32) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Adds and returns the sum.
    pub fn add(&self, amount: u32) -> u32 {
        // SAFETY: the model's promise: no other thread touches the cell now.
        self.0.with_mut(|at| unsafe {
            *at += amount;
            *at
        })
    }

    pub fn get(&self) -> u32 {
        // SAFETY: as in `add`.
        self.0.with(|at| unsafe { *at })
    }
}

/// An item whose content a producer writes and a handler reads, with no order of its own.
pub struct Parcel {
    pub key: Key,
    pub weight: u64,
    pub content: Plain,
}

impl Keyed for Box<Parcel> {
    fn key(&self) -> Key {
        self.key
    }

    fn weight(&self) -> u64 {
        self.weight
    }
}

/// Makes a parcel with this content.
pub fn parcel(key: Key, content: u32) -> Box<Parcel> {
    heavy(key, content, 1)
}

/// Makes a parcel of this weight.
pub fn heavy(key: Key, content: u32, weight: u64) -> Box<Parcel> {
    Box::new(Parcel { key, weight, content: Plain::new(content) })
}

/// An item with a content, for models that run with either kind of slot.
pub trait Queued: RingItem {
    fn new(content: u32) -> Self;
    fn content(&self) -> u32;
}

impl Queued for Box<Parcel> {
    fn new(content: u32) -> Self {
        parcel(0, content)
    }

    fn content(&self) -> u32 {
        self.content.get()
    }
}

/// An inline item, which lies in a cell of its slot that is not atomic.
pub struct Small(u32);

impl RingItem for Small {
    type Slot = Inline<Self>;
}

impl Queued for Small {
    fn new(content: u32) -> Self {
        Self(content)
    }

    fn content(&self) -> u32 {
        self.0
    }
}

/// Longer than any model runs.
pub const FOR_EVER: Duration = Duration::from_secs(3600);

/// A step that loom tries in every order with the same step of the other threads.
///
/// Loom finds out by itself which orders matter, but it remembers one access per atomic: a
/// thread that loads before it stores hides the load of the other thread, and the order
/// "store first" is never tried. A model whose threads take this step before such calls has that order, too.
/// The step is relaxed, so it puts no order between what the threads do elsewhere.
#[derive(Default)]
pub struct Race(AtomicUsize);

impl Race {
    pub fn step(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The cases that the runs of a model met. Under loom the runs must meet all expected cases: a model
/// that cannot reach the interesting case proves nothing.
#[derive(Clone, Default)]
pub struct Met(plain::Arc<plain::Mutex<BTreeSet<&'static str>>>);

impl Met {
    pub fn note(&self, case: &'static str) {
        self.0.lock().unwrap().insert(case);
    }

    /// Asserts that no other cases than these were met and, under loom, that all of these were met.
    pub fn exactly(&self, cases: &[&'static str]) {
        let met = self.0.lock().unwrap();
        let expected: BTreeSet<_> = cases.iter().copied().collect();
        assert!(met.is_subset(&expected), "met {met:?}, expected {expected:?}");
        if cfg!(loom) {
            assert_eq!(*met, expected, "loom did not meet every case");
        }
    }
}

pub type Queue = BatchQueue<Box<Parcel>>;

/// Makes a queue with these settings. Its threads never nap, because in a model no time passes.
pub fn queue(threads: usize, partitions: PartitionPolicy, buffer_size: usize, max_batch: usize) -> Arc<Queue> {
    queue_by(threads, |settings| {
        settings.partitions = partitions;
        settings.buffer_size = buffer_size;
        settings.max_batch = max_batch;
    })
}

/// Makes a queue whose threads never nap, with settings that `change` has changed.
pub fn queue_by(threads: usize, change: impl FnOnce(&mut Settings)) -> Arc<Queue> {
    let mut settings = Settings::new(threads);
    settings.min_idle = Duration::ZERO;
    change(&mut settings);
    Arc::new(BatchQueue::new("model", settings, Grouping::ByKey))
}

/// Drains until the queue is closed and empty, or `enough` returns true for the number of items handled so far;
/// returns the contents in the order in which they were handled.
pub fn drain(drainer: &mut Drainer<Box<Parcel>>, handler: &Plain, enough: impl Fn(usize) -> bool) -> Vec<u32> {
    drain_synced(drainer, |_| {}, handler, enough)
}

/// Drains as [`drain`] does, in a queue whose producers share a lock.
pub fn drain_synced(
    drainer: &mut Drainer<Box<Parcel>>,
    sync_with_producers: impl Fn(&dyn Fn()),
    handler: &Plain,
    enough: impl Fn(usize) -> bool,
) -> Vec<u32> {
    let mut seen = Vec::new();
    while !enough(seen.len()) {
        let mut pass = match drainer.next_step(&sync_with_producers) {
            Step::Pass(pass) => pass,
            Step::Idle(_) => continue,
            Step::Closed => break,
        };
        while let Some(batch) = pass.next_batch() {
            handler.add(batch.size as u32);
            seen.extend(batch.items.iter().map(|item| item.content.get()));
            let size = batch.size;
            if !pass.account(batch, &[(Outcome::Handled, size)]) {
                break;
            }
        }
    }
    seen
}

/// Asserts that every item is in exactly one place; returns how many were handled.
pub fn accounts(queue: &Queue) -> u64 {
    let now = queue.snapshot();
    let handled = now.outcomes().handled;
    let ended = now.outcomes().total() + now.abandoned;
    assert_eq!(now.accepted, ended + now.queued, "{now:?}");
    handled
}
