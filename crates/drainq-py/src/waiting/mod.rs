//! Waiting for an item, for room, or for the end of the work: threads and asyncio tasks wait in the same line.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `blocking.rs` | blocked threads, and Ctrl-C |
//! | `awaitable.rs`, `event_loops.rs` | sleeping tasks, and how they are notified |
//! | `queue.rs` | the calls that take items or wait for the end of the work, for both classes |
//! | `stream.rs` | the items of a queue until its shutdown, for threads and for tasks |
//!
//! No file here names a class of queue: the calls of a queue come as a [`WaitingPlace`] or another trait.

pub mod awaitable;
pub mod blocking;
pub mod event_loops;
pub mod queue;
pub mod stream;

use drainq_core::multi;
use drainq_core::wait::tickets::{Stalled, Wake};

/// One call's place among the waiters of a queue. Dropping it removes the call, and passes an unused token on.
pub trait WaitingPlace: Send + Sync {
    /// Enters the waiters, a second time at the same place. `wake` is called when another try may succeed.
    fn enter(&mut self, wake: Box<dyn Wake>);

    /// Finds tokens of other waiters that were given before the last call and are still unused. Takes no lock.
    fn find_stalled(&mut self) -> Option<Stalled>;

    /// Takes the tokens of stalled waiters back, and gives them to the next waiters.
    fn pass_stalled_on(&self, stalled: Stalled);
}

impl<T: Send, L: Send + Sync> WaitingPlace for multi::Wait<T, L> {
    fn enter(&mut self, wake: Box<dyn Wake>) {
        multi::Wait::enter(self, wake);
    }

    fn find_stalled(&mut self) -> Option<Stalled> {
        multi::Wait::find_stalled(self)
    }

    fn pass_stalled_on(&self, stalled: Stalled) {
        multi::Wait::pass_stalled_on(self, stalled);
    }
}
