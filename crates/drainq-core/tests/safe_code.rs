//! Tests of careless programs without `unsafe`: the queue panics, or every item is still accounted for.
#![forbid(unsafe_code)]
#![cfg(not(any(loom, drainq_shuttle)))]

use drainq_core::batch::rebalance::Rebalancer;
use drainq_core::batch::shared_scheduler::Scheduler;
use drainq_core::batch::{BatchQueue, Drainer, Grouping, Key, Keyed, Outcome, PartitionPolicy, Settings, Step};
use drainq_core::ring::Refusal;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

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

fn settings() -> Settings {
    let mut settings = Settings::new(2);
    settings.partitions = PartitionPolicy::Fixed(2);
    settings.buffer_size = 8;
    settings.max_batch = 2;
    settings
}

/// A queue with a type in each of its two partitions, one for each of its two threads.
fn queue(change: impl FnOnce(&mut Settings), grouping: Grouping) -> Arc<Queue> {
    let mut settings = settings();
    change(&mut settings);
    let queue = Arc::new(BatchQueue::new("safe", settings, grouping));
    assert_eq!((queue.add_type(1.0), queue.add_type(1.0)), (0, 1));
    queue
}

fn produce(queue: &Queue, key: Key, count: usize) {
    (0..count).for_each(|_| assert!(queue.try_produce(Box::new(Item(key, 1))).is_ok()));
}

/// Asserts that every item is in one place; returns items handled, abandoned and queued.
fn accounts(queue: &Queue) -> (u64, u64, u64) {
    let now = queue.snapshot();
    let handled = now.outcomes().handled;
    let ended = now.outcomes().total();
    assert_eq!(now.accepted, ended + now.abandoned + now.queued, "{now:?}");
    (handled, now.abandoned, now.queued)
}

/// Returns the message of the panic of `call`.
fn refused<R>(call: impl FnOnce() -> R) -> String {
    let Err(panic) = catch_unwind(AssertUnwindSafe(call)) else { panic!("it was not refused") };
    panic.downcast_ref::<String>().cloned().unwrap_or_else(|| (*panic.downcast_ref::<&str>().expect("text")).into())
}

/// Makes one whole pass of a drainer and handles it.
fn pass(drainer: &mut Drainer<Box<Item>>) -> u64 {
    let Step::Pass(mut pass) = drainer.try_step() else { return 0 };
    let mut handled = 0;
    while let Some(batch) = pass.next_batch() {
        let size = batch.size;
        assert!(pass.account(batch, &[(Outcome::Handled, size)]));
        handled += size;
    }
    handled
}

#[test]
fn a_worker_has_one_drainer_at_a_time() {
    let queue = queue(|_| {}, Grouping::ByKey);
    let first = Drainer::new(queue.clone(), 0);
    assert!(refused(|| Drainer::new(queue.clone(), 0)).contains("worker 0 of queue \"safe\" has a drainer"));
    drop(first);
    produce(&queue, 0, 2);
    assert_eq!(pass(&mut Drainer::new(queue.clone(), 0)), 2, "the next drainer drains");
    assert_eq!(accounts(&queue), (2, 0, 0));
}

#[test]
fn a_pass_that_is_dropped_counts_what_it_did_not_account_for_as_abandoned() {
    let queue = queue(|_| {}, Grouping::ByKey);
    produce(&queue, 0, 2);
    let mut drainer = Drainer::new(queue.clone(), 0);
    let Step::Pass(pass) = drainer.try_step() else { panic!("there are items") };
    assert_eq!(accounts(&queue), (0, 0, 2), "in flight");
    drop(pass);
    assert_eq!(accounts(&queue), (0, 2, 0));
}

#[test]
fn a_pass_that_is_forgotten_ends_with_the_next_or_with_its_drainer() {
    for next in [true, false] {
        let queue = queue(|_| {}, Grouping::ByKey);
        produce(&queue, 0, 3);
        let mut drainer = Drainer::new(queue.clone(), 0);
        let Step::Pass(forgotten) = drainer.try_step() else { panic!("there are items") };
        mem::forget(forgotten);
        if next {
            assert_eq!(pass(&mut drainer), 1, "without the two that were forgotten");
        } else {
            drop(drainer);
            assert_eq!(pass(&mut Drainer::new(queue.clone(), 0)), 1);
        }
        assert_eq!(accounts(&queue), (1, 2, 0));
    }
}

#[test]
fn a_batch_is_accounted_for_whole_and_by_the_pass_that_took_it() {
    let queues = [queue(|_| {}, Grouping::ByKey), queue(|_| {}, Grouping::ByKey)];
    produce(&queues[0], 0, 2);
    produce(&queues[1], 0, 1);
    let mut drainers = queues.each_ref().map(|queue| Drainer::new(queue.clone(), 0));
    let [first, second] = &mut drainers;
    let Step::Pass(mut large) = first.try_step() else { panic!("there are items") };
    let Step::Pass(mut small) = second.try_step() else { panic!("there are items") };
    let batch = large.next_batch().expect("a pass has a batch");
    let foreign = refused(|| small.account(batch, &[(Outcome::Handled, 2)]));
    assert_eq!(foreign, "a batch of 2 items, 1 left");
    let batch = small.next_batch().expect("a pass has a batch");
    assert!(refused(|| small.account(batch, &[(Outcome::Handled, 7)])).contains("all items of a batch"));
    drop((large, small));
    assert_eq!(queues.each_ref().map(|queue| accounts(queue)), [(0, 2, 0), (0, 1, 0)]);
}

#[test]
fn a_plan_names_threads_that_there_are() {
    let queue = queue(|_| {}, Grouping::ByKey);
    let told = refused(|| Rebalancer::new(queue.clone()).carry_out(&[0, 2]));
    assert_eq!(told, "a plan names thread 2, and queue \"safe\" has 2");
    assert_eq!(queue.assignments(), [[0], [1]], "nothing moved");
    produce(&queue, 1, 1);
}

#[test]
fn a_queue_is_made_with_settings_that_are_valid() {
    for (change, told) in [
        ((|settings: &mut Settings| settings.buffer_size = 0) as fn(&mut Settings), "buffer_size must be at least 1"),
        (|settings| settings.buffer_size = usize::MAX, "buffer_size must be at most"),
        (|settings| settings.max_batch = 0, "max_batch must be at least 1"),
    ] {
        assert!(refused(|| queue(change, Grouping::ByKey)).starts_with(told));
    }
}

#[test]
fn a_queue_is_added_once_and_to_the_scheduler_that_it_was_made_for() {
    let pools: [Scheduler<Box<Item>, ()>; 2] = [Scheduler::new(2), Scheduler::new(2)];
    let queue: Arc<Queue> = Arc::new(Queue::on_pool("pooled", settings(), Grouping::ByKey, pools[0].sleepers()));
    assert!(refused(|| pools[1].add(queue.clone(), ())).contains("whose sleepers it has"));
    let alone: Arc<Queue> = Arc::new(Queue::new("alone", settings(), Grouping::ByKey));
    assert!(refused(|| pools[0].add(alone, ())).contains("whose sleepers it has"));
    pools[0].add(queue.clone(), ());
    assert!(refused(|| pools[0].add(queue, ())).contains("has a drainer"));
}

/// If a queue does not weigh its items, their weights have no effect.
#[test]
fn the_weight_of_an_item_counts_where_items_are_weighed() {
    for grouping in [Grouping::ByKey, Grouping::Whole] {
        let queue = queue(|_| {}, grouping);
        assert!(queue.try_produce(Box::new(Item(0, u64::MAX))).is_ok());
        assert_eq!(accounts(&queue), (0, 0, 1));
        assert_eq!(pass(&mut Drainer::new(queue.clone(), 0)), 1);
        assert_eq!(accounts(&queue), (1, 0, 0));
    }
}

#[test]
fn no_weight_makes_a_counter_wrap() {
    let heaviest = drainq_core::batch::config::MAX_WEIGHT;
    for grouping in [Grouping::ByKey, Grouping::Whole] {
        let queue = queue(|settings| settings.weighed = true, grouping);
        let mut drainer = Drainer::new(queue.clone(), 0);
        for round in 1..=3 {
            assert!(queue.try_produce(Box::new(Item(0, u64::MAX))).is_ok(), "one that is too heavy, alone");
            let second = queue.try_produce(Box::new(Item(0, u64::MAX)));
            assert!(matches!(second, Err((_, Refusal::Full))));
            assert_eq!(pass(&mut drainer), heaviest);
            assert_eq!(accounts(&queue), (round * heaviest, 0, 0));
        }
        assert_eq!(queue.snapshot().types[0].accepted, 3 * heaviest);
    }
}

#[test]
fn many_items_at_once_are_not_for_a_queue_that_weighs_them() {
    let queue = queue(|settings| settings.weighed = true, Grouping::ByKey);
    let told = refused(|| queue.try_produce_many(0, &mut vec![Box::new(Item(0, 1))].into_iter()));
    assert_eq!(told, "items that are weighed go one by one");
    assert_eq!(accounts(&queue), (0, 0, 0));
}
