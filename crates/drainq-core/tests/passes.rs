//! One pass at a time, on one thread: how much it takes, whose turn is next, and what a close changes.
#![cfg(not(any(loom, drainq_shuttle)))]

use drainq_core::batch::shared_scheduler::{Loan, Scheduler};
use drainq_core::batch::{BatchQueue, Drainer, Grouping, Key, Keyed, Outcome, PartitionPolicy, Settings, Step};
use drainq_core::ring::Refusal;
use std::sync::Arc;

/// An item: its key, and its number or weight.
struct Item(Key, u64);

impl Keyed for Box<Item> {
    fn key(&self) -> Key {
        self.0
    }

    fn weight(&self) -> u64 {
        self.1
    }
}

type Queue = BatchQueue<Box<Item>>;

/// A pass stops taking once it holds this many times the largest batch.
const PASS: usize = 4;
const MAX_BATCH: usize = 2;

fn queue(threads: usize, partitions: usize, change: impl FnOnce(&mut Settings)) -> Arc<Queue> {
    let mut settings = Settings::new(threads);
    settings.partitions = PartitionPolicy::Fixed(partitions);
    settings.max_batch = MAX_BATCH;
    change(&mut settings);
    let queue = Arc::new(BatchQueue::new("passes", settings, Grouping::ByKey));
    (0..partitions).for_each(|key| assert_eq!(queue.add_type(1.0) as usize, key));
    queue
}

fn produce(queue: &Queue, key: usize, weight: u64) -> Result<(), Refusal> {
    queue.try_produce(Box::new(Item(key as Key, weight))).map_err(|(_, why)| why)
}

/// Makes and handles one pass; returns what it took, by key.
fn pass(drainer: &mut Drainer<Box<Item>>, keys: usize) -> Vec<u64> {
    let mut taken = vec![0; keys];
    let Step::Pass(mut pass) = drainer.try_step() else { return taken };
    while let Some(batch) = pass.next_batch() {
        let size = batch.size;
        taken[batch.key as usize] += size;
        assert!(pass.account(batch, &[(Outcome::Handled, size)]));
    }
    taken
}

#[test]
fn a_pass_takes_a_few_batches_at_most() {
    let queue = queue(1, 8, |_| {});
    (0..8).for_each(|key| (0..3).for_each(|_| produce(&queue, key, 1).expect("there is room")));
    let mut drainer = Drainer::new(queue.clone(), 0);
    let taken = pass(&mut drainer, 8);
    assert_eq!(taken, [2, 2, 2, 2, 0, 0, 0, 0]);
    assert_eq!(taken.iter().sum::<u64>() as usize, PASS * MAX_BATCH);
}

/// More items come in than one pass takes: the next pass starts where the last pass stopped.
#[test]
fn every_partition_has_its_turn_under_overload() {
    let queue = queue(1, 8, |settings| settings.buffer_size = 4);
    let mut drainer = Drainer::new(queue.clone(), 0);
    let mut taken = [0; 8];
    for _ in 0..8 {
        (0..8).for_each(|key| while produce(&queue, key, 1).is_ok() {});
        taken.iter_mut().zip(pass(&mut drainer, 8)).for_each(|(sum, count)| *sum += count);
    }
    assert_eq!(taken, [8; 8]);
}

/// Two threads borrow from a queue while it is the only one. Its items come in after a second queue was added.
#[test]
fn a_queue_that_was_alone_leaves_a_thread_of_the_pool_to_the_next() {
    let pool = Scheduler::<Box<Item>, &str>::new(2);
    let add = |name| {
        let mut settings = Settings::new(1);
        settings.partitions = PartitionPolicy::Fixed(2);
        let queue = Arc::new(Queue::on_pool(name, settings, Grouping::ByKey, pool.sleepers()));
        (0..2).for_each(|key| assert_eq!(queue.add_type(1.0) as usize, key));
        pool.add(queue.clone(), name);
        queue
    };
    let queue = add("alone");
    let mut threads = [pool.thread(), pool.thread()];
    let mut loans = threads.each_mut().map(|thread| thread.try_borrow().expect("a new slot is ready"));
    assert!(matches!(loans[0].step(), Some(Step::Idle(_))), "no item yet");
    add("next");
    (0..2).for_each(|key| produce(&queue, key, 1).expect("there is room"));
    assert!(loans.iter_mut().all(|loan| loan.step().is_none()), "both would begin a pass of one queue");
    drop(loans);
    let [first, second] = &mut threads;
    let next = |loan: Option<Loan<'_, _, _>>| loan.map(|mut loan| (*loan.context(), loan.step().is_some()));
    assert_eq!(next(first.try_borrow()), Some(("next", true)));
    let mut hangs = first.try_borrow().expect("two items wait");
    assert!(*hangs.context() == "alone" && matches!(hangs.step(), Some(Step::Pass(_))));
    assert_eq!([next(second.try_borrow()), next(second.try_borrow())], [Some(("next", true)), None]);
}

#[test]
fn after_the_close_one_thread_may_drain_all_partitions() {
    let queue = queue(2, 2, |_| {});
    (0..2).for_each(|key| produce(&queue, key, 1).expect("there is room"));
    let mut drainer = Drainer::new(queue.clone(), 0);
    queue.close();
    assert_eq!(pass(&mut drainer, 2), [1, 1], "also what belongs to a thread that never comes");
    assert!(drainer.is_finished() && queue.is_drained());
}

#[test]
fn a_partition_that_comes_after_the_close_is_closed() {
    let queue = queue(1, 1, |settings| settings.partitions = PartitionPolicy::Adaptive(25));
    queue.close();
    let key = queue.add_type(1.0) as usize;
    assert_eq!((queue.partition_count(), queue.partition_of(key as Key)), (2, 1));
    assert_eq!(produce(&queue, key, 1), Err(Refusal::Closed));
    assert!(queue.is_drained());
}

/// Items without weight fill the slots, so that an item whose weight was admitted finds no slot.
#[test]
fn the_weight_of_an_item_that_was_refused_is_free_again() {
    let queue = queue(1, 1, |settings| (settings.buffer_size, settings.weighed) = (2, true));
    let mut drainer = Drainer::new(queue.clone(), 0);
    for _ in 0..3 {
        assert_eq!(
            [produce(&queue, 0, 0), produce(&queue, 0, 0), produce(&queue, 0, 1)],
            [Ok(()), Ok(()), Err(Refusal::Full)]
        );
        pass(&mut drainer, 1);
        assert_eq!([produce(&queue, 0, 2), produce(&queue, 0, 1)], [Ok(()), Err(Refusal::Full)], "all of the room");
        assert_eq!(pass(&mut drainer, 1), [2]);
    }
    assert_eq!(queue.snapshot().accepted, 6);
}

#[test]
fn an_item_heavier_than_a_partition_is_let_in_alone() {
    let queue = queue(1, 1, |settings| (settings.buffer_size, settings.weighed) = (2, true));
    assert_eq!([produce(&queue, 0, 3), produce(&queue, 0, 1)], [Ok(()), Err(Refusal::Full)]);
    assert_eq!(pass(&mut Drainer::new(queue.clone(), 0), 1), [3]);
    assert_eq!([produce(&queue, 0, 1), produce(&queue, 0, 3)], [Ok(()), Err(Refusal::Full)]);
}

/// Both bounds: that of the partition, and that of the queue.
#[test]
fn the_weight_of_an_item_that_was_refused_is_free_again_in_the_whole_queue() {
    let queue = queue(1, 2, |settings| {
        (settings.buffer_size, settings.capacity, settings.weighed) = (2, Some(3), true);
    });
    let mut drainer = Drainer::new(queue.clone(), 0);
    for _ in 0..3 {
        // Items without weight fill the slots of partition 0. Then the bound of partition 1 refuses, then the queue's.
        assert_eq!([produce(&queue, 0, 0), produce(&queue, 0, 0)], [Ok(()), Ok(())]);
        assert_eq!(produce(&queue, 0, 1), Err(Refusal::Full), "no slot");
        assert_eq!(
            [produce(&queue, 1, 2), produce(&queue, 1, 1)],
            [Ok(()), Err(Refusal::Full)],
            "no room in partition 1"
        );
        assert_eq!(pass(&mut drainer, 2), [0, 2]);
        assert_eq!(
            [produce(&queue, 0, 2), produce(&queue, 1, 2)],
            [Ok(()), Err(Refusal::Full)],
            "no room in the queue"
        );
        assert_eq!([produce(&queue, 1, 1), produce(&queue, 0, 1)], [Ok(()), Err(Refusal::Full)], "all of the room");
        assert_eq!(pass(&mut drainer, 2), [2, 1]);
    }
}

/// The producers share a lock, for which a single thread stands here.
#[test]
fn the_credit_of_a_partition_is_taken_back_when_another_needs_its_places() {
    const CAPACITY: u64 = 1_000;
    let queue = queue(1, 3, |settings| settings.capacity = Some(CAPACITY as usize));
    let item = |key| Box::new(Item(key, 1));
    let push = |key| {
        let at = queue.partition(queue.partition_of(key));
        // SAFETY: one thread.
        unsafe { at.push_fast(|| item(key)) || queue.try_produce_at(at, item(key)).is_ok() }
    };
    for many in [false, true] {
        assert!(push(0) && push(1), "each now has credit");
        let fast = queue.partition(queue.partition_of(0));
        // SAFETY: one thread.
        assert!(unsafe { fast.push_fast(|| item(0)) }, "which this item uses");
        let mut items = (0..CAPACITY).map(|_| item(2)).collect::<Vec<_>>().into_iter();
        let accepted = match many {
            // SAFETY: one thread.
            true => unsafe { queue.try_produce_many_serialised(queue.partition_of(2), &mut items).0 as u64 },
            false => (0..CAPACITY).map(|_| u64::from(push(2))).sum(),
        };
        assert_eq!(accepted, CAPACITY - 3, "all places that no item has");
        assert_eq!(queue.snapshot().queued, CAPACITY);
        let mut drainer = Drainer::new(queue.clone(), 0);
        while queue.snapshot().queued > 0 {
            pass(&mut drainer, 3);
        }
    }
}
