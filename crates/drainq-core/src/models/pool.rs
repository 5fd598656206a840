//! Drain threads that several queues share: no thread stays parked while an item waits, a queue that hangs leaves
//! a thread to the others, and every thread ends.

use super::{Met, Parcel, Queue, Race, accounts, parcel};
use crate::batch::shared_scheduler::Scheduler;
use crate::batch::{Grouping, Key, Outcome, PartitionPolicy, Settings, Step};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, Parker, Unparker, bounded_model, model, thread};
use std::time::Duration;

type Pool = Scheduler<Box<Parcel>, ()>;

/// Makes a queue with this number of partitions, which the caller adds to this pool.
fn pooled(pool: &Pool, partitions: usize) -> Arc<Queue> {
    let settings = Settings {
        min_idle: Duration::ZERO,
        buffer_size: 2,
        partitions: PartitionPolicy::Fixed(partitions),
        ..Settings::new(1)
    };
    Arc::new(Queue::on_pool("pooled", settings, Grouping::ByKey, pool.sleepers()))
}

/// Makes a queue with a type for each partition, and adds the queue to this pool.
fn added(pool: &Pool, partitions: usize) -> Arc<Queue> {
    let queue = pooled(pool, partitions);
    (0..partitions).for_each(|key| assert_eq!(queue.add_type(1.0), key as Key));
    pool.add(queue.clone(), ());
    queue
}

/// Drains as a thread of a pool until the scheduler ends, or `enough` returns true for the number of items handed out.
fn drain(pool: &Pool, handle: impl Fn(u32), enough: impl Fn(usize) -> bool) -> usize {
    let (mut seen, mut me) = (0, pool.thread());
    while !enough(seen) {
        let Some(mut loan) = me.borrow() else { break };
        let Some(Step::Pass(mut pass)) = loan.step() else { continue };
        while let Some(batch) = pass.next_batch() {
            batch.items.iter().for_each(|item| handle(item.content.get()));
            seen += batch.items.len();
            let size = batch.size;
            assert!(pass.account(batch, &[(Outcome::Handled, size)]));
        }
        drop(pass);
        loan.found();
    }
    seen
}

/// Runs a pool of one thread with one queue, into which `produce` puts one item.
fn produced_into_a_pool(produce: fn(&Queue, Key)) {
    model(move || {
        let pool = Arc::new(Pool::new(1));
        let queue = added(&pool, 1);
        let race = Arc::new(Race::default());
        let drainer = {
            let race = race.clone();
            thread::spawn(move || {
                race.step();
                drain(&pool, |content| assert_eq!(content, 5), |seen| seen > 0)
            })
        };
        race.step();
        produce(&queue, 0);
        assert_eq!(drainer.join().unwrap(), 1);
    });
}

#[test]
fn an_item_for_a_pooled_queue_is_never_slept_over() {
    produced_into_a_pool(|queue, key| assert!(queue.try_produce(parcel(key, 5)).is_ok()));
}

/// A pool's threads do not take the producers' lock before they sleep, so the producers run a fence.
#[test]
fn an_item_produced_under_a_lock_for_a_pooled_queue_is_never_slept_over() {
    // SAFETY: one producer, and no thread closes.
    produced_into_a_pool(|queue, key| assert!(unsafe { queue.try_produce_serialised(0, parcel(key, 5)) }.is_ok()));
}

/// Starts threads of a pool, which hand out items until the scheduler ends. `handle` gets the content of each item.
fn spawn(
    pool: &Arc<Pool>,
    threads: usize,
    handle: impl Fn(u32) + Clone + Send + 'static,
) -> Vec<thread::JoinHandle<usize>> {
    let spawn = |_| {
        let (pool, handle) = (pool.clone(), handle.clone());
        thread::spawn(move || drain(&pool, handle, |_| false))
    };
    (0..threads).map(spawn).collect()
}

fn join(threads: Vec<thread::JoinHandle<usize>>) -> usize {
    threads.into_iter().map(|thread| thread.join().unwrap()).sum()
}

/// Two queues share two threads, so each queue may have one thread. Each queue gets an item, and both threads end.
#[test]
fn two_queues_on_two_threads_are_drained_and_end() {
    let met = Met::default();
    let note = met.clone();
    bounded_model(1, move || {
        let pool = Arc::new(Pool::new(2));
        let queues = [added(&pool, 1), added(&pool, 1)];
        let note = note.clone();
        let threads = spawn(&pool, 2, move |content| note.note(["", "first", "second"][content as usize]));
        assert!(queues[0].try_produce(parcel(0, 1)).is_ok());
        assert!(queues[1].try_produce(parcel(0, 2)).is_ok());
        queues.iter().for_each(|queue| assert!(queue.close()));
        pool.stop();
        assert_eq!(join(threads), 2);
        queues.iter().for_each(|queue| assert_eq!((queue.is_drained(), accounts(queue)), (true, 1)));
    });
    met.exactly(&["first", "second"]);
}

/// A counter of arrivals, by which handlers wait for each other.
#[derive(Clone)]
struct Meeting(Arc<(Mutex<Vec<Unparker>>, AtomicUsize)>);

impl Meeting {
    fn new() -> Self {
        Self(Arc::new((Mutex::new(Vec::new()), AtomicUsize::new(0))))
    }

    /// Counts one arrival.
    fn come(&self) {
        self.0.1.fetch_add(1, Ordering::AcqRel);
        self.0.0.lock().drain(..).for_each(|waiting| waiting.unpark());
    }

    /// Waits until this many have arrived.
    fn wait_for(&self, count: usize) {
        let parker = Parker::new();
        loop {
            self.0.0.lock().push(parker.unparker().clone());
            if self.0.1.load(Ordering::Acquire) >= count {
                return;
            }
            parker.park();
        }
    }
}

/// A queue whose handlers hang has work for both threads: one thread still serves the other queue.
#[test]
fn a_queue_that_hangs_leaves_a_thread_to_the_other() {
    bounded_model(1, || {
        let pool = Arc::new(Pool::new(2));
        let (hangs, other) = (added(&pool, 2), added(&pool, 1));
        assert!(hangs.try_produce(parcel(0, 1)).is_ok() && hangs.try_produce(parcel(1, 1)).is_ok());
        let meeting = Meeting::new();
        let threads = {
            let meeting = meeting.clone();
            spawn(&pool, 2, move |content| if content == 1 { meeting.wait_for(1) } else { meeting.come() })
        };
        assert!(other.try_produce(parcel(0, 2)).is_ok());
        meeting.wait_for(1);
        hangs.close();
        other.close();
        pool.stop();
        assert_eq!(join(threads), 3);
    });
}

/// A queue ends while another queue has work for two threads, whose handlers wait for each other. The thread
/// of the queue that ended goes over to the other queue, even if the thread is parked by then.
#[test]
fn the_thread_of_a_queue_that_ended_is_there_for_the_others() {
    bounded_model(1, || {
        let pool = Arc::new(Pool::new(2));
        let (ends, works) = (added(&pool, 1), added(&pool, 2));
        assert!(works.try_produce(parcel(0, 1)).is_ok() && works.try_produce(parcel(1, 1)).is_ok());
        let meeting = Meeting::new();
        let threads = {
            let meeting = meeting.clone();
            spawn(&pool, 2, move |_| {
                meeting.come();
                meeting.wait_for(2);
            })
        };
        ends.close();
        meeting.wait_for(2);
        works.close();
        pool.stop();
        assert_eq!(join(threads), 2);
    });
}

/// A queue with work joins while the threads fall idle.
#[test]
fn a_queue_that_joins_with_work_is_drained() {
    bounded_model(2, || {
        let pool = Arc::new(Pool::new(2));
        let first = added(&pool, 1);
        let threads = spawn(&pool, 2, |_| {});
        let joins = pooled(&pool, 1);
        joins.add_type(1.0);
        assert!(joins.try_produce(parcel(0, 1)).is_ok());
        pool.add(joins.clone(), ());
        let mut flush = crate::batch::flush::Flush::of_queue(&joins);
        while flush.wait(super::FOR_EVER) != crate::batch::flush::Flushed::All {}
        first.close();
        joins.close();
        pool.stop();
        assert_eq!(join(threads), 1);
    });
}

/// A scheduler without queues: its threads end when it is stopped, parked or not.
#[test]
fn threads_without_a_queue_end_when_the_scheduler_stops() {
    model(|| {
        let pool = Arc::new(Pool::new(2));
        let threads = spawn(&pool, 2, |_| {});
        pool.stop();
        assert_eq!(join(threads), 0);
    });
}

/// The last queue ends after the stop: the thread that was parked meanwhile ends too.
#[test]
fn the_end_of_the_last_queue_ends_every_thread() {
    model(|| {
        let pool = Arc::new(Pool::new(2));
        let queue = added(&pool, 1);
        let threads = spawn(&pool, 2, |_| {});
        pool.stop();
        queue.close();
        assert_eq!(join(threads), 0);
    });
}
