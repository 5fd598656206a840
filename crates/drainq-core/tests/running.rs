//! A queue with threads of its own in a Rust program: they end with it, and nothing that was accepted is lost.
#![cfg(not(any(loom, drainq_shuttle)))]

use drainq_core::batch::running::Running;
use drainq_core::batch::{BatchQueue, Grouping, Key, Keyed, Settings};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

struct Item(Key);

impl Keyed for Box<Item> {
    fn key(&self) -> Key {
        self.0
    }
}

fn start() -> Running<Box<Item>> {
    Running::start(BatchQueue::new("running", Settings::new(2), Grouping::ByKey))
}

#[test]
fn its_end_hands_out_what_was_accepted_and_ends_the_threads() {
    let running = start();
    let seen = Arc::new(AtomicUsize::new(0));
    let key = {
        let seen = seen.clone();
        running.add_handler(1.0, move |batch: &mut Vec<Box<Item>>| {
            seen.fetch_add(batch.len(), Ordering::Relaxed);
        })
    };
    let queue = running.queue().clone();
    (0..1_000).for_each(|_| assert!(queue.try_produce(Box::new(Item(key))).is_ok()));
    drop(running);
    assert_eq!(seen.load(Ordering::Relaxed), 1_000);
    assert_eq!(Arc::strong_count(&queue), 1, "no thread has it any more");
    assert!(queue.is_drained() && queue.try_produce(Box::new(Item(key))).is_err());
}

/// A handler owns its own queue, so the end of the handler ends the queue.
#[test]
fn a_handler_may_end_its_own_queue() {
    let running = start();
    let queue = running.queue().clone();
    let (owned, ended) = (Arc::new(Mutex::new(None)), channel::<()>());
    let key = {
        let (owned, until_dropped) = (owned.clone(), Mutex::new(ended.0));
        running.add_handler(1.0, move |_: &mut Vec<Box<Item>>| {
            let _kept = &until_dropped;
            let last: Option<Running<Box<Item>>> = owned.lock().expect("nobody panics").take();
            drop(last);
        })
    };
    *owned.lock().expect("nobody panics") = Some(running);
    assert!(queue.try_produce(Box::new(Item(key))).is_ok());
    // The handlers are dropped with the last thread.
    let end = ended.1.recv_timeout(Duration::from_secs(60));
    assert_eq!(end, Err(RecvTimeoutError::Disconnected));
    assert!(queue.is_drained());
    assert_eq!(queue.snapshot().outcomes().handled, 1);
}
