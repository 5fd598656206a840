//! The blocking calls of a Rust program, by the protocol of [`Wait`].
//!
//! A thread that finds nothing yields the processor twice, and tries again each time, before it enters the waiters.
//! With more threads than processors the other side then often runs, and a getter makes room for many putters at once.
//! Without the yields each wake-up would make room for only one putter. Measured with 250 putters and one getter on two
//! processors: the yields cut the processor time for each item to a fifth.

use super::bulk_get::Gathered;
use super::put::PutRefusal;
use super::queue::{MultiQueue, SubQueue};
use super::take::Nothing;
use super::wait::Wait;
use crate::sync::thread as threads;
use crate::wait::thread::WaitingThread;

/// The number of times that a thread yields the processor before it enters the waiters; 0 in a model.
const YIELDS: usize = if cfg!(any(loom, drainq_shuttle)) { 0 } else { 2 };

impl<T, L> Wait<T, L> {
    /// Yields the processor the first times; later enters the waiters and sleeps until another try may succeed.
    fn sleep(&mut self, thread: &WaitingThread) {
        if self.yields < YIELDS {
            self.yields += 1;
            threads::yield_now();
            return;
        }
        self.enter(thread.waker());
        thread.sleep();
    }
}

impl<T, L: Clone> MultiQueue<T, L> {
    /// Takes the item whose turn it is, waiting for one; `None` once the queue is shut down and no item is left.
    pub fn get(&self) -> Option<T> {
        let (mut wait, thread) = (self.getter(), WaitingThread::default());
        loop {
            match self.try_get() {
                Ok(item) => return Some(item),
                Err(Nothing::ShutDown) => return None,
                Err(Nothing::Empty) => wait.sleep(&thread),
            }
        }
    }

    /// Takes up to `most` items once there are `least` of them, or the items that are left after shutdown.
    pub fn get_many(&self, least: usize, most: usize) -> Vec<T> {
        let (mut wait, thread) = (self.getter(), WaitingThread::default());
        while wait.gather(least, most) == Gathered::TooFew {
            wait.sleep(&thread);
        }
        wait.finish()
    }
}

impl<T, L: Clone> MultiQueue<T, L> {
    /// Waits until each item that was put is done or was removed.
    pub fn join(&self) {
        let (mut wait, thread) = (self.joiner(), WaitingThread::default());
        while self.shared().unfinished() > 0 {
            wait.sleep(&thread);
        }
    }
}

impl<T, L> SubQueue<T, L> {
    /// Adds an item, waiting for room; returns it if it can never be accepted.
    pub fn put(&self, mut item: T) -> Result<(), (T, PutRefusal)> {
        let (mut wait, thread) = (self.putter(), WaitingThread::default());
        loop {
            item = match self.try_put(item) {
                Err((refused, PutRefusal::Full)) => refused,
                done => {
                    if done.is_err() {
                        self.reject(1);
                    }
                    return done;
                }
            };
            wait.sleep(&thread);
        }
    }
}
