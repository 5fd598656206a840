//! The losses of all batch queues of this process, for the test kit: a test fails if a queue lost an item.
//!
//! # Invariants
//! 1. A queue counts once: a live queue by its current counters, an ended queue by its last ones. The live queues are
//!    those of `interpreter_exit.rs`.
//! 2. The lock is taken with the GIL held, so no fork finds it taken. It guards only sums: no queue is read under it.

use super::interpreter_exit;
use super::types::item::Item;
use drainq_core::batch::BatchQueue;
use drainq_core::sync::Mutex;
use pyo3::prelude::*;

/// The fates of items that no handler has handled, in the order of [`losses_of`].
const LOSSES: [&str; 7] = ["full", "closed", "would_deadlock", "failed", "unrouted", "abandoned", "queued"];

type Losses = [u64; LOSSES.len()];

/// The losses of queues that no longer exist.
static ENDED: Mutex<Losses> = Mutex::new([0; LOSSES.len()]);

fn losses_of(queue: &BatchQueue<Item>) -> Losses {
    let snapshot = queue.snapshot();
    let [full, closed, would_deadlock] = snapshot.rejected;
    let (failed, unrouted) = (snapshot.outcomes().failed, snapshot.outcomes().unrouted);
    [full, closed, would_deadlock, failed, unrouted, snapshot.abandoned, snapshot.queued]
}

fn add(total: &mut Losses, losses: Losses) {
    total.iter_mut().zip(losses).for_each(|(total, count)| *total += count);
}

/// Adds the losses of a queue at its end. A finaliser calls this, so it does nothing else.
pub fn keep(_py: Python<'_>, queue: &BatchQueue<Item>) {
    let losses = losses_of(queue);
    add(&mut ENDED.lock(), losses);
}

/// Returns the number of items that the batch queues of this process have not handled, by fate; ``queued`` are those
/// that are still in a queue, or with its handler. Queues that have ended are included.
#[pyfunction]
pub fn batch_losses() -> Vec<(&'static str, u64)> {
    let living = interpreter_exit::live();
    let mut losses = *ENDED.lock();
    living.iter().filter_map(|live| live.counted()).for_each(|queue| add(&mut losses, losses_of(queue)));
    LOSSES.into_iter().zip(losses).collect()
}
