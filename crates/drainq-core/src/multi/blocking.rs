//! The blocking calls of a Rust program, by the protocol of [`Wait`].

use super::bulk_get::Gathered;
use super::put::PutRefusal;
use super::queue::{MultiQueue, SubQueue};
use super::take::Nothing;
use super::wait::Wait;
use crate::wait::thread::WaitingThread;

impl<T, L> Wait<T, L> {
    /// Enters the waiters and sleeps until it is worth trying again.
    fn sleep(&mut self, thread: &WaitingThread) {
        self.enter(thread.waker());
        thread.sleep();
    }
}

impl<T, L: Clone> MultiQueue<T, L> {
    /// Takes the item whose turn it is, waiting for one; `None` after shutdown.
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

    /// Takes up to `most` items once there are `least` of them, or what there is after shutdown.
    pub fn get_many(&self, least: usize, most: usize) -> Vec<T> {
        let (mut wait, thread) = (self.getter(), WaitingThread::default());
        while wait.gather(least, most) == Gathered::TooFew {
            wait.sleep(&thread);
        }
        wait.finish()
    }
}

impl<T, L> SubQueue<T, L> {
    /// Adds an item, waiting for room; gives it back when it can never be accepted.
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
