//! Waiting in a multi-queue under a model checker: no notification is lost, whichever waiter gives up.
//!
//! Each test runs 200 times on real threads, and in every interleaving under `--cfg loom`. `scripts/mutants/core.py`
//! names the faults that these tests notice.

use super::{MultiQueue, Order, PutRefusal, SubQueue, SubQueueSettings};
use crate::clock::ManualClock;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, model, thread};
use crate::wait::thread::WaitingThread;
use crate::wait::tickets::Wake;

type Queue = MultiQueue<u32, ()>;

/// Makes a multi-queue with one sub-queue.
fn queue_of(capacity: usize) -> (Arc<Queue>, Arc<SubQueue<u32, ()>>) {
    let queue = MultiQueue::new(Order::Priority, ManualClock::new());
    let settings = SubQueueSettings { priority: 0, capacity, weight: 1 };
    let sub = queue.add((), settings, None).expect("it is not shut down");
    (Arc::new(queue), Arc::new(sub))
}

struct Unreachable;

impl Wake for Unreachable {
    fn wake(self: Box<Self>) -> bool {
        false
    }
}

#[test]
fn every_blocked_getter_is_woken_by_an_item_of_its_own() {
    model(|| {
        let (queue, sub) = queue_of(usize::MAX);
        let getters = [queue.clone(), queue].map(|queue| thread::spawn(move || queue.get()));
        sub.put(1).unwrap();
        sub.put(2).unwrap();
        let got = getters.map(|getter| getter.join().unwrap().unwrap());
        assert_eq!(got[0] + got[1], 3);
    });
}

#[test]
fn every_blocked_putter_is_woken_by_room_of_its_own() {
    model(|| {
        let (queue, sub) = queue_of(1);
        sub.put(1).unwrap();
        let putters = [2, 3].map(|item| {
            let sub = sub.clone();
            thread::spawn(move || sub.put(item).unwrap())
        });
        let got: u32 = (0..3).map(|_| queue.get().unwrap()).sum();
        for putter in putters {
            putter.join().unwrap();
        }
        assert_eq!(got, 6);
    });
}

#[test]
fn a_getter_that_gives_up_passes_its_wake_up_on() {
    model(|| {
        let (queue, sub) = queue_of(usize::MAX);
        let sleeper = WaitingThread::default();
        let mut impatient = queue.getter();
        impatient.enter(sleeper.waker());
        let patient = thread::spawn(move || queue.get());
        let putter = thread::spawn(move || sub.put(7).map(|()| sub));
        drop(impatient);
        assert_eq!(patient.join().unwrap(), Some(7));
        assert!(putter.join().unwrap().is_ok());
    });
}

#[test]
fn a_putter_that_gives_up_passes_its_wake_up_on() {
    model(|| {
        let (queue, sub) = queue_of(1);
        sub.put(1).unwrap();
        let sleeper = WaitingThread::default();
        let mut impatient = sub.putter();
        impatient.enter(sleeper.waker());
        let patient = thread::spawn(move || sub.put(2).map(|()| sub));
        let getter = thread::spawn(move || [queue.get(), queue.get()]);
        drop(impatient);
        let _sub = patient.join().unwrap().unwrap();
        assert_eq!(getter.join().unwrap(), [Some(1), Some(2)]);
    });
}

#[test]
fn a_wake_up_for_an_unreachable_getter_goes_to_the_next() {
    model(|| {
        let (queue, sub) = queue_of(usize::MAX);
        let mut gone = queue.getter();
        gone.enter(Box::new(Unreachable));
        let getter = {
            let queue = queue.clone();
            thread::spawn(move || queue.get())
        };
        sub.put(7).unwrap();
        assert_eq!(getter.join().unwrap(), Some(7));
        drop(gone);
        assert_eq!(queue.stats(&[]).2, 0);
    });
}

#[test]
fn two_bulk_getters_never_share_what_is_enough_for_one() {
    model(|| {
        let (queue, sub) = queue_of(usize::MAX);
        let getters = [queue.clone(), queue.clone()].map(|queue| thread::spawn(move || queue.get_many(2, 2).len()));
        sub.put(1).unwrap();
        sub.put(2).unwrap();
        queue.shut_down(super::ShutdownMode::Serve);
        let mut got = getters.map(|getter| getter.join().unwrap());
        got.sort_unstable();
        assert_eq!(got, [0, 2]);
    });
}

#[test]
fn a_bulk_getter_holds_what_a_full_sub_queue_keeps_others_out_with() {
    model(|| {
        let (queue, sub) = queue_of(1);
        let getter = thread::spawn(move || queue.get_many(2, 2));
        sub.put(1).unwrap();
        sub.put(2).unwrap();
        assert_eq!(getter.join().unwrap(), [1, 2]);
    });
}

#[test]
fn a_bulk_getter_and_a_getter_of_one_are_both_served() {
    model(|| {
        let (queue, sub) = queue_of(usize::MAX);
        let bulk = {
            let queue = queue.clone();
            thread::spawn(move || queue.get_many(2, 2).len())
        };
        let single = thread::spawn(move || queue.get().is_some());
        for item in 0..3 {
            sub.put(item).unwrap();
        }
        assert_eq!((bulk.join().unwrap(), single.join().unwrap()), (2, true));
    });
}

#[test]
fn a_putter_learns_that_the_multi_queue_is_gone() {
    model(|| {
        let (queue, sub) = queue_of(1);
        sub.put(1).unwrap();
        let putter = thread::spawn(move || sub.put(2));
        drop(queue);
        assert_eq!(putter.join().unwrap(), Err((2, PutRefusal::Orphaned)));
    });
}

#[test]
fn shutdown_wakes_getters_and_putters() {
    model(|| {
        let (queue, sub) = queue_of(1);
        sub.disable(String::new());
        sub.put(1).unwrap();
        let putter = thread::spawn(move || (sub.put(2), sub));
        let getter = {
            let queue = queue.clone();
            thread::spawn(move || queue.get())
        };
        queue.shut_down(super::ShutdownMode::Serve);
        assert_eq!(getter.join().unwrap(), None);
        assert_eq!(putter.join().unwrap().0, Err((2, PutRefusal::ShutDown)));
    });
}

#[test]
fn removal_wakes_putters_and_refuses_later_ones() {
    model(|| {
        let (queue, sub) = queue_of(1);
        sub.put(1).unwrap();
        let putter = {
            let sub = sub.clone();
            thread::spawn(move || sub.put(2))
        };
        assert!(sub.retire());
        assert_eq!(putter.join().unwrap(), Err((2, PutRefusal::Removed)));
        assert_eq!(sub.clear(), [1]);
        assert!(queue.is_empty());
    });
}

#[test]
fn a_put_races_a_removal_and_is_either_in_or_refused() {
    model(|| {
        let (queue, sub) = queue_of(usize::MAX);
        let putter = {
            let sub = sub.clone();
            thread::spawn(move || sub.put(1).is_ok())
        };
        sub.retire();
        assert_eq!(putter.join().unwrap(), sub.clear() == [1]);
        let (_, total, _) = queue.stats(&[]);
        assert_eq!(total.counters.put, total.counters.removed);
        assert!(queue.is_empty());
    });
}

#[test]
fn a_joiner_is_woken_by_the_last_item_that_is_done_and_sees_what_was_done() {
    model(|| {
        let (queue, sub) = queue_of(usize::MAX);
        sub.put(1).unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let worker = {
            let (queue, done) = (queue.clone(), done.clone());
            thread::spawn(move || {
                assert_eq!(queue.get(), Some(1));
                sub.put(2).unwrap(); // an item may bring another before it is done
                assert!(queue.task_done());
                assert_eq!(queue.get(), Some(2));
                done.store(true, Ordering::Relaxed);
                assert!(queue.task_done() && !queue.task_done());
                sub
            })
        };
        queue.join();
        assert!(done.load(Ordering::Relaxed));
        assert!(worker.join().is_ok());
    });
}

#[test]
fn a_joiner_is_woken_when_what_waits_is_removed() {
    model(|| {
        let (queue, sub) = queue_of(usize::MAX);
        sub.put(1).unwrap();
        let joiner = {
            let queue = queue.clone();
            thread::spawn(move || queue.join())
        };
        assert_eq!(sub.clear(), [1]);
        assert!(joiner.join().is_ok());
        queue.join();
    });
}
