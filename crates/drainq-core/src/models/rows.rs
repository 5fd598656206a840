//! Items that count for many: the weight in a partition never exceeds its capacity, and every row is
//! accounted for.

use super::{Met, Plain, Queue, accounts, drain, heavy, queue_by};
use crate::batch::Drainer;
use crate::ring::Refusal;
use crate::sync::{Arc, model, thread};

fn room_for_three_rows() -> Arc<Queue> {
    queue_by(1, |settings| {
        settings.buffer_size = 3;
        settings.weighed = true;
    })
}

/// Two items that do not fit together, and a drain thread that makes room for the second, or not in
/// time.
#[test]
fn two_items_too_heavy_for_one_partition_are_never_in_it_together() {
    let met = Met::default();
    let note = met.clone();
    model(move || {
        let queue = room_for_three_rows();
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

/// A drain thread takes the weight of what it takes away, never of what was not added yet.
#[test]
fn rows_are_added_before_they_can_be_taken() {
    let met = Met::default();
    let note = met.clone();
    model(move || {
        let queue = room_for_three_rows();
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
