//! The real queue, as partitions move or are added: no thread sleeps while an item waits.

use super::{Met, Parcel, Plain, Queue, accounts, drain, drain_synced, parcel, queue};
use crate::batch::rebalance::Rebalancer;
use crate::batch::{Drainer, PartitionPolicy, Step};
use crate::sync::{Arc, Mutex, model, thread};

/// A partition that already holds an item is given to a thread that is falling asleep.
#[test]
fn a_partition_given_to_a_sleeping_thread_is_drained() {
    model(|| {
        let queue = queue(2, PartitionPolicy::Fixed(2), 2, 1);
        let key = queue.add_type(1.0);
        let sleeper = {
            let queue = queue.clone();
            thread::spawn(move || drain(&mut Drainer::new(queue, 1), &Plain::new(0), |items| items == 1))
        };
        assert!(queue.try_produce(parcel(key, 5)).is_ok());
        assert_eq!(Rebalancer::new(queue.clone()).carry_out(&[1, 1]), 1);
        assert_eq!(sleeper.join().unwrap(), [5]);
        assert_eq!(accounts(&queue), 1);
    });
}

/// The item comes while the partition is given to another thread: the producer may wake the
/// old owner, which never runs here.
#[test]
fn an_item_produced_during_the_move_is_drained_by_the_new_owner() {
    model(|| {
        let queue = queue(2, PartitionPolicy::Fixed(2), 2, 1);
        let key = queue.add_type(1.0);
        let sleeper = {
            let queue = queue.clone();
            thread::spawn(move || drain(&mut Drainer::new(queue, 1), &Plain::new(0), |items| items == 1))
        };
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || queue.try_produce(parcel(key, 5)).is_ok())
        };
        Rebalancer::new(queue.clone()).carry_out(&[1, 1]);
        assert!(producer.join().unwrap());
        assert_eq!(sleeper.join().unwrap(), [5]);
    });
}

/// The same for producers with a lock instead of a fence. The second item takes the fast path that the first one
/// opened. The new owner synchronises with the producers, which closes the fast path.
#[test]
fn an_item_produced_under_the_lock_during_the_move_is_drained_by_the_new_owner() {
    model(|| {
        let queue = queue(2, PartitionPolicy::Fixed(2), 8, 1);
        let key = queue.add_type(1.0);
        let lock = Arc::new(Mutex::new(()));
        // SAFETY: all produce calls are made under the lock, or before another thread is there.
        assert!(unsafe { queue.try_produce_serialised(0, parcel(key, 5)) }.is_ok());
        let sleeper = {
            let (queue, lock) = (queue.clone(), lock.clone());
            thread::spawn(move || {
                let sync_with_producers = |close_fast_path: &dyn Fn()| {
                    let _lock = lock.lock();
                    close_fast_path();
                };
                drain_synced(&mut Drainer::new(queue, 1), sync_with_producers, &Plain::new(0), |items| items == 2)
            })
        };
        let mover = {
            let queue = queue.clone();
            thread::spawn(move || Rebalancer::new(queue).carry_out(&[1, 1]))
        };
        {
            let _lock = lock.lock();
            // SAFETY: all produce calls are made under the lock, and no thread closes.
            unsafe { produce_under_lock(&queue, parcel(key, 6)) };
        }
        assert_eq!(mover.join().unwrap(), 1);
        assert_eq!(sleeper.join().unwrap(), [5, 6]);
    });
}

/// Queues an item, by the fast path if that is open.
///
/// # Safety
///
/// That of `try_produce_serialised`.
unsafe fn produce_under_lock(queue: &Queue, item: Box<Parcel>) -> &'static str {
    let mut item = Some(item);
    // SAFETY: the caller's promise.
    if unsafe { queue.partition(0).ring.push_fast(|| item.take().expect("asked for once")) } {
        return "fast path";
    }
    let item = item.take().expect("the fast path was closed");
    // SAFETY: the caller's promise.
    assert!(unsafe { queue.try_produce_serialised(0, item) }.is_ok());
    "with a look"
}

/// An item is pushed on the fast path while the thread falls asleep: if the push comes before the thread has the
/// lock, the thread's last check finds the item; otherwise the fast path is closed and the push wakes the thread.
#[test]
fn an_item_pushed_on_the_fast_path_is_never_slept_over() {
    let met = Met::default();
    let note = met.clone();
    model(move || {
        let queue = queue(1, PartitionPolicy::Fixed(1), 8, 8);
        let key = queue.add_type(1.0);
        let lock = Arc::new(Mutex::new(()));
        // SAFETY: all produce calls are made under the lock, or before another thread is there.
        unsafe { produce_under_lock(&queue, parcel(key, 1)) };
        let drainer = {
            let (queue, lock) = (queue.clone(), lock.clone());
            thread::spawn(move || {
                let sync_with_producers = |close_fast_path: &dyn Fn()| {
                    let _lock = lock.lock();
                    close_fast_path();
                };
                drain_synced(&mut Drainer::new(queue, 0), sync_with_producers, &Plain::new(0), |items| items == 2)
            })
        };
        {
            let _lock = lock.lock();
            // SAFETY: all produce calls are made under the lock, and no thread closes.
            note.note(unsafe { produce_under_lock(&queue, parcel(key, 2)) });
        }
        assert_eq!(drainer.join().unwrap(), [1, 2]);
        assert_eq!(accounts(&queue), 2);
    });
    met.exactly(&["fast path", "with a look"]);
}

/// The claim is the fence: if a producer finds the thread awake, the thread will see the claim.
#[test]
fn a_claim_is_never_slept_over() {
    model(|| {
        let queue = queue(1, PartitionPolicy::Fixed(1), 2, 1);
        let key = queue.add_type(1.0);
        let drainer = {
            let queue = queue.clone();
            thread::spawn(move || drain(&mut Drainer::new(queue, 0), &Plain::new(0), |items| items == 1))
        };
        assert!(queue.try_produce(parcel(key, 7)).is_ok());
        assert_eq!(drainer.join().unwrap(), [7]);
    });
}

/// The partition is given to another thread in the middle of a pass. The end of the pass hands it over,
/// and the handler call of the new owner sees the complete handler call of the old owner.
#[test]
fn a_pass_hands_the_partition_over_when_it_ends() {
    let met = Met::default();
    let note = met.clone();
    model(move || {
        let queue = queue(2, PartitionPolicy::Fixed(2), 2, 1);
        let key = queue.add_type(1.0);
        let handler = Arc::new(Plain::new(0));
        assert!(queue.try_produce(parcel(key, 1)).is_ok() && queue.try_produce(parcel(key, 2)).is_ok());
        let new = {
            let (queue, handler) = (queue.clone(), handler.clone());
            thread::spawn(move || drain(&mut Drainer::new(queue, 1), &handler, |items| items == 1))
        };
        let mut old = Drainer::new(queue.clone(), 0);
        if let Step::Pass(mut pass) = old.try_step() {
            let batch = pass.next_batch().expect("a pass has a batch");
            handler.add(1);
            assert_eq!(Rebalancer::new(queue.clone()).carry_out(&[1, 1]), 1);
            handler.add(1);
            note.note("moved in the pass");
            assert!(pass.account(batch, &[(crate::batch::Outcome::Handled, 1)]));
        } else {
            unreachable!("thread 0 owns the partition and there are items");
        }
        assert_eq!(new.join().unwrap(), [2], "the order of the type is kept");
        assert_eq!(handler.get(), 3);
        assert_eq!(accounts(&queue), 2);
    });
    met.exactly(&["moved in the pass"]);
}

/// A type and its partition are new, and the thread that gets the partition is falling asleep.
#[test]
fn a_new_partition_is_drained() {
    model(|| {
        let queue = queue(1, PartitionPolicy::Adaptive(25), 2, 1);
        queue.add_type(1.0);
        let drainer = {
            let queue = queue.clone();
            thread::spawn(move || drain(&mut Drainer::new(queue, 0), &Plain::new(0), |items| items == 1))
        };
        let key = queue.add_type(1.0);
        assert_eq!((queue.partition_count(), queue.partition_of(key)), (2, 1));
        assert!(queue.try_produce(parcel(key, 7)).is_ok());
        assert_eq!(drainer.join().unwrap(), [7]);
    });
}
