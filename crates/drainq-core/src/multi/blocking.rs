//! The blocking calls of a Rust program, by the protocol of [`Wait`].

use super::queue::{MultiQueue, SubQueue};
use super::state::{Nothing, Refusal};
use super::wait::Wait;
use super::waiters::Wake;
use crate::sync::{Parker, Unparker};

impl Wake for Unparker {
    fn wake(self: Box<Self>) -> bool {
        self.unpark();
        true
    }
}

impl<T, L> Wait<T, L> {
    /// Lines up and sleeps until it is worth trying again.
    fn sleep(&mut self, parker: &Parker) {
        self.enter(Box::new(parker.unparker().clone()));
        while !self.is_notified() {
            parker.park();
        }
    }
}

impl<T, L: Clone> MultiQueue<T, L> {
    /// Takes the item whose turn it is, waiting for one; `None` after shutdown.
    pub fn get(&self) -> Option<T> {
        let (mut wait, parker) = (self.getter(), Parker::new());
        loop {
            match self.try_get() {
                Ok(item) => return Some(item),
                Err(Nothing::ShutDown) => return None,
                Err(Nothing::Empty) => wait.sleep(&parker),
            }
        }
    }
}

impl<T, L> SubQueue<T, L> {
    /// Adds an item, waiting for room; gives it back when it can never be accepted.
    pub fn put(&self, mut item: T) -> Result<(), (T, Refusal)> {
        let (mut wait, parker) = (self.putter(), Parker::new());
        loop {
            item = match self.try_put(item) {
                Err((refused, Refusal::Full)) => refused,
                done => {
                    if done.is_err() {
                        self.reject(1);
                    }
                    return done;
                }
            };
            wait.sleep(&parker);
        }
    }
}
