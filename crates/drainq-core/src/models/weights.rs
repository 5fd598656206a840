//! Items that count for many: the weight in a partition never exceeds its capacity, and every row is
//! accounted for.

use super::{FOR_EVER, Met, Parcel, Plain, Queue, accounts, drain, heavy, queue_by};
use crate::batch::Drainer;
use crate::batch::weights::Weights;
use crate::ring::Refusal;
use crate::sync::{Arc, Mutex, deep_model, model, thread};

fn room_for_a_weight_of_three() -> Arc<Queue> {
    queue_by(1, |settings| {
        settings.buffer_size = 3;
        settings.weighed = true;
    })
}

/// Two producers push items that do not fit together, and no thread makes room: one of the items is accepted.
#[test]
fn two_items_too_heavy_for_one_partition_are_never_in_it_together() {
    let met = Met::default();
    let note = met.clone();
    model(move || {
        let queue = room_for_a_weight_of_three();
        let key = queue.add_type(1.0);
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || queue.try_produce(heavy(key, 1, 2)).map_err(|(_, why)| why))
        };
        let mine = queue.try_produce(heavy(key, 2, 2)).map_err(|(_, why)| why);
        let rows = queue.snapshot().queued;
        let theirs = producer.join().unwrap();
        note.note(match (mine, theirs) {
            (Ok(()), Err(Refusal::Full)) | (Err(Refusal::Full), Ok(())) => "one",
            both => unreachable!("{both:?}, with {rows} rows in room for 3"),
        });
        queue.close();
        let handled = drain(&mut Drainer::new(queue.clone(), 0), &Plain::new(0), |_| false);
        assert_eq!((handled.len(), accounts(&queue)), (1, 2));
        assert_eq!(queue.snapshot().types[key as usize].accepted, 2);
    });
    met.exactly(&["one"]);
}

/// A producer waits for room for two rows. The drain thread makes this room by taking two rows.
#[test]
fn a_producer_that_waits_for_room_for_its_weight_gets_it() {
    let met = Met::default();
    let note = met.clone();
    model(move || {
        let queue = room_for_a_weight_of_three();
        let key = queue.add_type(1.0);
        assert!(queue.try_produce(heavy(key, 1, 2)).is_ok());
        let drainer = {
            let queue = queue.clone();
            thread::spawn(move || drain(&mut Drainer::new(queue, 0), &Plain::new(0), |items| items == 2))
        };
        let mut item = heavy(key, 2, 2);
        let mut how = "room was found";
        let mut waiter = queue.wait_for_room(0);
        while let Err((back, why)) = queue.try_produce(item) {
            assert_eq!(why, Refusal::Full);
            item = back;
            how = "room was waited for";
            waiter.wait(FOR_EVER);
        }
        waiter.served();
        note.note(how);
        assert_eq!(drainer.join().unwrap(), [1, 2]);
        accounts(&queue);
    });
    met.exactly(&["room was found", "room was waited for"]);
}

/// Producers share no lock, and a drain thread takes what one producer added while the other checks for room.
/// There is room for all three rows at all times, so no producer is refused.
#[test]
fn no_producer_is_refused_where_there_is_always_room() {
    let met = Met::default();
    let note = met.clone();
    deep_model(move || {
        let shared = Arc::new((Weights::new(true, 3), Mutex::new(Vec::new())));
        let produce = |(rows, queued): &(Weights, Mutex<Vec<Box<Parcel>>>), weight| {
            assert!(rows.admit(weight), "refused {weight} rows");
            queued.lock().push(heavy(0, 0, weight));
        };
        let drain = |(rows, queued): &(Weights, Mutex<Vec<Box<Parcel>>>)| {
            let items = std::mem::take(&mut *queued.lock());
            rows.took(&items);
            items.len()
        };
        let producer = {
            let shared = shared.clone();
            thread::spawn(move || produce(&shared, 2))
        };
        let drainer = {
            let shared = shared.clone();
            thread::spawn(move || drain(&shared))
        };
        produce(&shared, 1);
        producer.join().unwrap();
        note.note(["none", "one", "two"][drainer.join().unwrap()]);
        drain(&shared);
        assert_eq!(shared.0.used_and_taken(), Some((0, 3)));
    });
    met.exactly(&["none", "one", "two"]);
}

/// A drain thread subtracts the weight of the items that it took, never a weight that was not added yet.
#[test]
fn a_weight_is_added_before_it_can_be_taken() {
    let met = Met::default();
    let note = met.clone();
    model(move || {
        let queue = room_for_a_weight_of_three();
        let key = queue.add_type(1.0);
        let drainer = {
            let queue = queue.clone();
            thread::spawn(move || drain(&mut Drainer::new(queue, 0), &Plain::new(0), |items| items == 1))
        };
        assert!(queue.try_produce(heavy(key, 1, 2)).is_ok());
        let second = queue.try_produce(heavy(key, 2, 2));
        note.note(if second.is_ok() { "room was made" } else { "not yet" });
        assert_eq!(drainer.join().unwrap()[0], 1);
        let now = queue.snapshot();
        assert_eq!(now.accepted, if second.is_ok() { 4 } else { 2 });
        accounts(&queue);
    });
    met.exactly(&["room was made", "not yet"]);
}
