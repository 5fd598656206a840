//! Drain threads that several queues share: an item that comes while the last of them falls idle.

use super::{FOR_EVER, Parcel, Queue, Race, parcel};
use crate::batch::scheduler::Scheduler;
use crate::batch::{Grouping, Key, Outcome, Settings, Step, ThreadPolicy};
use crate::sync::{Arc, model, thread};
use std::time::Duration;

/// A pool of one thread with a queue on it; `produce` queues one item.
fn produced_into_a_pool(produce: fn(&Queue, Key)) {
    model(move || {
        let pool: Arc<Scheduler<Box<Parcel>, ()>> = Arc::new(Scheduler::new(1));
        let settings = Settings { min_idle: Duration::ZERO, buffer_size: 2, ..Settings::new(ThreadPolicy::Fixed(1)) };
        let queue = Arc::new(Queue::on_pool("pooled", settings, Grouping::ByKey, pool.sleepers()));
        let key = queue.add_type(1.0);
        pool.add(queue.clone(), ());
        let race = Arc::new(Race::default());
        let drainer = {
            let race = race.clone();
            thread::spawn(move || drain_one(&pool, &race))
        };
        race.step();
        produce(&queue, key);
        assert_eq!(drainer.join().unwrap(), [5]);
    });
}

/// What the thread of a pool does until it has handed an item out.
fn drain_one(pool: &Scheduler<Box<Parcel>, ()>, race: &Race) -> Vec<u32> {
    let (mut seen, mut turn) = (Vec::new(), 0);
    while seen.is_empty() {
        race.step();
        let Ok(mut loan) = pool.borrow(&mut turn, FOR_EVER) else { continue };
        let Step::Pass(mut pass) = loan.drainer().try_step() else {
            thread::yield_now(); // claimed and not there yet
            continue;
        };
        while let Some(batch) = pass.next_batch() {
            seen.extend(batch.items.iter().map(|item| item.content.get()));
            let size = batch.size;
            assert!(pass.account(batch, &[(Outcome::Handled, size)]));
        }
    }
    seen
}

#[test]
fn an_item_for_a_pooled_queue_is_never_slept_over() {
    produced_into_a_pool(|queue, key| assert!(queue.try_produce(parcel(key, 5)).is_ok()));
}

/// A pool's threads do not take the producers' lock before they sleep, so producers have the fence.
#[test]
fn an_item_produced_under_a_lock_for_a_pooled_queue_is_never_slept_over() {
    // SAFETY: one producer, and nobody closes.
    produced_into_a_pool(|queue, key| assert!(unsafe { queue.try_produce_serialised(0, parcel(key, 5)) }.is_ok()));
}
