//! Partitions that share a capacity: the capacity holds, and room in one partition is room for all producers.

use super::{FOR_EVER, Met, Plain, Queue, accounts, drain, parcel, queue_by};
use crate::batch::{Drainer, PartitionPolicy};
use crate::ring::Refusal;
use crate::sync::{Arc, model, thread};

/// A queue of two partitions that have room for one item together, and its two keys.
fn one_place_for_two_partitions() -> (Arc<Queue>, [u32; 2]) {
    let queue = queue_by(1, |settings| {
        settings.partitions = PartitionPolicy::Fixed(2);
        settings.buffer_size = 2;
        settings.capacity = Some(1);
    });
    let keys = [queue.add_type(1.0), queue.add_type(1.0)];
    (queue, keys)
}

/// Two producers, each with a partition of its own, and a single place.
#[test]
fn two_producers_of_different_partitions_never_get_one_place_together() {
    let met = Met::default();
    let note = met.clone();
    model(move || {
        let (queue, keys) = one_place_for_two_partitions();
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || queue.try_produce(parcel(keys[0], 1)).map_err(|(_, why)| why))
        };
        let mine = queue.try_produce(parcel(keys[1], 2)).map_err(|(_, why)| why);
        note.note(match (mine, producer.join().unwrap()) {
            (Ok(()), Err(Refusal::Full)) => "mine",
            (Err(Refusal::Full), Ok(())) => "theirs",
            both => unreachable!("{both:?}"),
        });
        queue.close();
        let handled = drain(&mut Drainer::new(queue.clone(), 0), &Plain::new(0), |_| false);
        assert_eq!((handled.len(), accounts(&queue)), (1, 1));
    });
    met.exactly(&["mine", "theirs"]);
}

/// A producer waits although its partition is empty. The drain thread takes the item of the other partition.
#[test]
fn a_producer_gets_the_place_that_another_partition_frees() {
    let met = Met::default();
    let note = met.clone();
    model(move || {
        let (queue, keys) = one_place_for_two_partitions();
        assert!(queue.try_produce(parcel(keys[0], 1)).is_ok());
        let drainer = {
            let queue = queue.clone();
            thread::spawn(move || drain(&mut Drainer::new(queue, 0), &Plain::new(0), |items| items == 2))
        };
        let mut item = parcel(keys[1], 2);
        let mut how = "room was found";
        let mut waiter = queue.wait_for_room(queue.partition_of(keys[1]));
        while let Err((back, why)) = queue.try_produce(item) {
            assert_eq!(why, Refusal::Full);
            item = back;
            how = "room was waited for";
            waiter.wait(FOR_EVER);
        }
        waiter.served();
        note.note(how);
        let mut handled = drainer.join().unwrap();
        // One pass may take both items. It then hands out first the type that it met last.
        handled.sort_unstable();
        assert_eq!((handled, accounts(&queue)), (vec![1, 2], 2));
    });
    met.exactly(&["room was found", "room was waited for"]);
}
