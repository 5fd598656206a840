//! What all batch queues of this process have lost, for the test kit: a test that asserts nothing about a queue still
//! fails if the queue lost an item.
//!
//! # Invariants
//! 1. A queue counts once: while it lives by what it says now, and after its end by what it said at its end.
//! 2. The lock is held for copies and sums alone; no queue is read or ended under it.

use super::types::item::Item;
use drainq_core::batch::BatchQueue;
use drainq_core::sync::Mutex;
use pyo3::prelude::*;
use std::sync::Weak;

/// What becomes of an item that no handler has handled, in the order of [`losses_of`].
const LOSSES: [&str; 7] = ["full", "closed", "would_deadlock", "failed", "unrouted", "abandoned", "queued"];

type Losses = [u64; LOSSES.len()];

/// What has a queue that counts: another one after a fork.
pub trait Counted: Send + Sync {
    /// Returns the queue of this process.
    fn counted(&self) -> &BatchQueue<Item>;
}

struct Known {
    living: Vec<Weak<dyn Counted>>,
    ended: Losses,
}

static KNOWN: Mutex<Known> = Mutex::new(Known { living: Vec::new(), ended: [0; LOSSES.len()] });

fn losses_of(queue: &BatchQueue<Item>) -> Losses {
    let snapshot = queue.snapshot();
    let [full, closed, would_deadlock] = snapshot.rejected;
    let (failed, unrouted) = (snapshot.outcomes().failed, snapshot.outcomes().unrouted);
    [full, closed, would_deadlock, failed, unrouted, snapshot.abandoned, snapshot.queued]
}

/// Has a queue counted from now on.
pub fn count(queue: Weak<dyn Counted>) {
    let mut known = KNOWN.lock();
    known.living.retain(|other| other.strong_count() > 0);
    known.living.push(queue);
}

/// Keeps what a queue has lost, at its end. Called by a finaliser: it adds up, and nothing more.
pub fn keep(queue: &BatchQueue<Item>) {
    let losses = losses_of(queue);
    let mut known = KNOWN.lock();
    known.ended.iter_mut().zip(losses).for_each(|(total, count)| *total += count);
}

/// Returns how many items the batch queues of this process have not handled, by what became of them; ``queued`` are those
/// that are still in a queue, or with its handler. Queues that have ended are included.
#[pyfunction]
pub fn batch_losses() -> Vec<(&'static str, u64)> {
    let (living, mut losses) = {
        let known = KNOWN.lock();
        (known.living.iter().filter_map(Weak::upgrade).collect::<Vec<_>>(), known.ended)
    };
    for queue in &living {
        losses.iter_mut().zip(losses_of(queue.counted())).for_each(|(total, count)| *total += count);
    }
    LOSSES.into_iter().zip(losses).collect()
}
