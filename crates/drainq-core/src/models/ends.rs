//! The real queue while a thread waits for its work to be done: flush, close, cut.

use super::{FOR_EVER, Met, Plain, Queue, accounts, drain, parcel, queue, queue_by};
use crate::batch::flush::{Flush, Flushed};
use crate::batch::rebalance::Rebalancer;
use crate::batch::{Drainer, Key, Outcome, PartitionPolicy, Rejection, Step};
use crate::ring::Refusal;
use crate::sync::{Arc, model, thread};

/// After a flush the caller sees what the handler did.
#[test]
fn a_flush_returns_after_the_handler_call() {
    model(|| {
        let queue = queue(1, PartitionPolicy::Fixed(1), 2, 1);
        let key = queue.add_type(1.0);
        let handler = Arc::new(Plain::new(0));
        let drainer = {
            let (queue, handler) = (queue.clone(), handler.clone());
            thread::spawn(move || drain(&mut Drainer::new(queue, 0), &handler, |_| false))
        };
        assert!(queue.try_produce(parcel(key, 5)).is_ok());
        let mut flush = Flush::of_queue(&queue);
        while flush.wait(FOR_EVER) != Flushed::All {}
        assert_eq!(handler.get(), 1);
        queue.close();
        assert_eq!(drainer.join().unwrap(), [5]);
    });
}

/// The close against a producer and the drain thread: everything accepted is handled, and
/// the thread ends.
#[test]
fn a_close_loses_nothing_and_ends_the_thread() {
    let met = Met::default();
    let note = met.clone();
    model(move || {
        let queue = queue(1, PartitionPolicy::Fixed(1), 2, 2);
        let key = queue.add_type(1.0);
        let drainer = {
            let queue = queue.clone();
            thread::spawn(move || drain(&mut Drainer::new(queue, 0), &Plain::new(0), |_| false))
        };
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || u64::from(queue.try_produce(parcel(key, 5)).is_ok()))
        };
        queue.close();
        let accepted = producer.join().unwrap();
        note.note(["refused", "accepted"][accepted as usize]);
        assert_eq!(drainer.join().unwrap().len() as u64, accepted);
        assert!(queue.is_drained());
        assert_eq!(accounts(&queue), accepted);
    });
    met.exactly(&["refused", "accepted"]);
}

/// A partition changes its owner in the middle of a pass, and a flush waits for the items of both threads. The
/// old owner, whose pass has just ended, does not overwrite the completed index that the new owner stores.
#[test]
fn a_flush_returns_though_the_partition_changes_hands() {
    model(|| {
        let queue = queue(2, PartitionPolicy::Fixed(2), 2, 1);
        let key = queue.add_type(1.0);
        let handler = Arc::new(Plain::new(0));
        assert!(queue.try_produce(parcel(key, 1)).is_ok() && queue.try_produce(parcel(key, 2)).is_ok());
        let mut flush = Flush::of_queue(&queue);
        let new = {
            let (queue, handler) = (queue.clone(), handler.clone());
            thread::spawn(move || drain(&mut Drainer::new(queue, 1), &handler, |items| items == 1))
        };
        let mut old = Drainer::new(queue.clone(), 0);
        let Step::Pass(mut pass) = old.try_step() else { unreachable!("thread 0 owns the partition") };
        let batch = pass.next_batch().expect("a pass has a batch");
        assert_eq!(Rebalancer::new(queue.clone()).carry_out(&[1, 1]), 1);
        handler.add(1);
        assert!(pass.account(batch, &[(Outcome::Handled, 1)]));
        drop(pass);
        while flush.wait(FOR_EVER) != Flushed::All {}
        assert_eq!(handler.get(), 2, "both handler calls are over");
        assert_eq!(new.join().unwrap(), [2]);
    });
}

/// A balancer's thread waits for the time of its next plan, until the close.
#[test]
fn a_close_ends_the_wait_for_the_next_look() {
    model(|| {
        let queue = queue(1, PartitionPolicy::Fixed(1), 2, 1);
        let waits = {
            let queue = queue.clone();
            thread::spawn(move || while queue.wait_open(FOR_EVER) {})
        };
        queue.close();
        waits.join().unwrap();
    });
}

/// A shutdown returns when the handler call that was under way is over.
#[test]
fn a_shutdown_waits_for_the_handler_call() {
    model(|| {
        let queue = queue(1, PartitionPolicy::Fixed(1), 2, 1);
        let key = queue.add_type(1.0);
        let handler = Arc::new(Plain::new(0));
        assert!(queue.try_produce(parcel(key, 5)).is_ok());
        let drainer = {
            let (queue, handler) = (queue.clone(), handler.clone());
            thread::spawn(move || drain(&mut Drainer::new(queue, 0), &handler, |_| false))
        };
        queue.close();
        while !queue.wait_drained(FOR_EVER) {}
        assert_eq!(handler.get(), 1);
        assert_eq!(accounts(&queue), 1);
        drainer.join().unwrap();
    });
}

/// A thread that lets items gather sleeps until its partition is half full, a flush waits, or the queue closes: no
/// time passes in a model. The thread then hands out what has gathered.
fn gathered(expected: &'static [u32], end: fn(&Arc<Queue>, Key)) {
    model(move || {
        let queue = queue_by(1, |settings| {
            settings.buffer_size = 4;
            settings.linger = FOR_EVER;
        });
        let key = queue.add_type(1.0);
        let drainer = {
            let queue = queue.clone();
            thread::spawn(move || drain(&mut Drainer::new(queue, 0), &Plain::new(0), |items| items >= 1))
        };
        assert!(queue.try_produce(parcel(key, 1)).is_ok());
        end(&queue, key);
        let seen = drainer.join().unwrap();
        // The second claim makes the partition half full; its item may be published after the first item was taken.
        assert!(expected.starts_with(&seen), "{seen:?}");
    });
}

#[test]
fn a_half_full_partition_ends_the_gathering() {
    gathered(&[1, 2], |queue, key| assert!(queue.try_produce(parcel(key, 2)).is_ok()));
}

#[test]
fn a_close_ends_the_gathering() {
    gathered(&[1], |queue, _| assert!(queue.close()));
}

#[test]
fn a_flush_ends_the_gathering() {
    gathered(&[1], |queue, _| {
        let mut flush = Flush::of_queue(queue);
        while flush.wait(FOR_EVER) != Flushed::All {}
    });
}

/// A thread does not end while another may finish a pass; then both end.
#[test]
fn at_a_close_every_thread_ends() {
    model(|| {
        let queue = queue(2, PartitionPolicy::Fixed(2), 2, 1);
        let key = queue.add_type(1.0);
        let handler = Arc::new(Plain::new(0));
        assert!(queue.try_produce(parcel(key, 1)).is_ok() && queue.try_produce(parcel(key, 2)).is_ok());
        queue.close();
        let other = {
            let (queue, handler) = (queue.clone(), handler.clone());
            thread::spawn(move || drain(&mut Drainer::new(queue, 1), &handler, |_| false))
        };
        let mine = drain(&mut Drainer::new(queue.clone(), 0), &handler, |_| false);
        let theirs = other.join().unwrap();
        assert!(mine.is_sorted() && theirs.is_sorted());
        assert_eq!(mine.len() + theirs.len(), 2);
        assert_eq!(handler.get(), 2, "one handler call saw the other");
        assert_eq!(accounts(&queue), 2);
    });
}

/// The cut against a producer: what was claimed before the close is abandoned too, even if
/// it was not published yet.
#[test]
fn a_cut_counts_an_item_that_is_being_pushed() {
    let met = Met::default();
    let note = met.clone();
    model(move || {
        let queue = queue(1, PartitionPolicy::Fixed(1), 2, 1);
        let key = queue.add_type(1.0);
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || u64::from(queue.try_produce(parcel(key, 5)).is_ok()))
        };
        let cut = queue.cut();
        let accepted = producer.join().unwrap();
        note.note(["refused", "abandoned"][accepted as usize]);
        assert_eq!(cut.abandoned, accepted);
        assert_eq!(queue.snapshot().queued, 0);
    });
    met.exactly(&["refused", "abandoned"]);
}

/// A flush waits for a pass that hangs, the cut gives up on that pass, and the pass ends late:
/// the flush ends with the cut, and does not count the late end as a finished handler call.
#[test]
fn a_flush_does_not_count_what_the_cut_gave_up() {
    model(|| {
        let queue = queue(1, PartitionPolicy::Fixed(1), 2, 1);
        let key = queue.add_type(1.0);
        assert!(queue.try_produce(parcel(key, 1)).is_ok());
        let flush = {
            let mut flush = Flush::of_queue(&queue);
            thread::spawn(move || {
                loop {
                    match flush.wait(FOR_EVER) {
                        Flushed::NotYet => {}
                        known => return known,
                    }
                }
            })
        };
        let mut drainer = Drainer::new(queue.clone(), 0);
        let Step::Pass(pass) = drainer.try_step() else { unreachable!("there is an item") };
        assert_eq!(queue.cut().abandoned, 1);
        drop(pass);
        assert_eq!(flush.join().unwrap(), Flushed::GivenUp);
        accounts(&queue);
    });
}

/// A flush of items that no thread takes ends with the cut.
#[test]
fn a_cut_ends_the_wait_of_a_flush() {
    model(|| {
        let queue = queue(1, PartitionPolicy::Fixed(1), 2, 1);
        let key = queue.add_type(1.0);
        assert!(queue.try_produce(parcel(key, 1)).is_ok());
        let mut flush = Flush::of_queue(&queue);
        let waits = thread::spawn(move || {
            loop {
                match flush.wait(FOR_EVER) {
                    Flushed::NotYet => {}
                    known => return known,
                }
            }
        });
        assert_eq!(queue.cut().abandoned, 1);
        assert_eq!(waits.join().unwrap(), Flushed::GivenUp);
    });
}

#[test]
fn a_close_releases_a_blocked_producer_with_its_item() {
    model(|| {
        let queue = queue(1, PartitionPolicy::Fixed(1), 1, 1);
        let key = queue.add_type(1.0);
        assert!(queue.try_produce(parcel(key, 1)).is_ok());
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || {
                let mut waiter = queue.wait_for_room(0);
                let mut item = parcel(key, 2);
                loop {
                    match queue.produce_within(0, item, &mut waiter, FOR_EVER) {
                        Err((back, Refusal::Full)) => item = back,
                        Err((back, Refusal::Closed | Refusal::NoMemory)) => {
                            queue.count_rejected(Rejection::Closed, 1);
                            return back.content.get();
                        }
                        Ok(()) => unreachable!("nobody drains"),
                    }
                }
            })
        };
        queue.close();
        assert_eq!(producer.join().unwrap(), 2);
        assert_eq!(queue.rejected(Rejection::Closed), 1);
    });
}

/// The cut against a pass: each item is handled or abandoned, and the two add up.
#[test]
fn a_cut_counts_each_item_once() {
    let met = Met::default();
    let note = met.clone();
    model(move || {
        let queue = queue(1, PartitionPolicy::Fixed(1), 2, 1);
        let key = queue.add_type(1.0);
        assert!(queue.try_produce(parcel(key, 1)).is_ok() && queue.try_produce(parcel(key, 2)).is_ok());
        let drainer = {
            let queue = queue.clone();
            thread::spawn(move || drain(&mut Drainer::new(queue, 0), &Plain::new(0), |_| false))
        };
        let cut = queue.cut();
        assert!(cut.items.len() as u64 <= cut.abandoned);
        assert_eq!(queue.snapshot().queued, 0);
        drainer.join().unwrap();
        let handled = accounts(&queue);
        note.note(["none handled", "one handled", "two handled"][handled as usize]);
        assert_eq!(handled + cut.abandoned, 2);
    });
    met.exactly(&["none handled", "one handled", "two handled"]);
}
