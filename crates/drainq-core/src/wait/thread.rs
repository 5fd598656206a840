//! The sleep of a thread until its ticket is notified, without the lock of its queue.
//!
//! A sleeping thread reads its own flag, which the notifying thread sets. So a thread that gave up an interpreter's
//! lock to sleep never takes the queue's lock, and a fork that is made under the interpreter's lock finds the queue's
//! lock free.
//!
//! # Invariants
//! 1. The flag is set, with `Release`, before the thread is unparked, and read with `Acquire`.
//! 2. Unparking a thread leaves a token: a wake-up between the read of the flag and the park ends the park at once.

use super::tickets::Wake;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Parker, Unparker, planted};
use std::time::Duration;

/// A thread that waits with a ticket.
#[derive(Debug, Default)]
pub struct WaitingThread {
    parker: Parker,
    is_woken: Arc<AtomicBool>,
}

struct ThreadWaker {
    thread: Unparker,
    is_woken: Arc<AtomicBool>,
}

impl Wake for ThreadWaker {
    fn wake(self: Box<Self>) -> bool {
        self.is_woken.store(true, Ordering::Release);
        if !planted("thread_unpark") {
            self.thread.unpark();
        }
        true
    }
}

impl WaitingThread {
    /// Returns the handle that wakes this thread. Discards earlier wake-ups.
    pub fn waker(&self) -> Box<dyn Wake> {
        self.is_woken.store(false, Ordering::Relaxed);
        Box::new(ThreadWaker { thread: self.parker.unparker().clone(), is_woken: self.is_woken.clone() })
    }

    /// Whether the thread was woken since the last [`WaitingThread::waker`].
    pub fn is_woken(&self) -> bool {
        self.is_woken.load(Ordering::Acquire)
    }

    /// Sleeps until the thread is woken.
    pub fn sleep(&self) {
        while !self.is_woken() {
            self.parker.park();
        }
    }

    /// Sleeps until the thread is woken, `limit` at most; returns whether it was woken.
    pub fn sleep_for(&self, limit: Duration) -> bool {
        if !self.is_woken() {
            self.parker.park_timeout(limit);
        }
        self.is_woken()
    }
}
