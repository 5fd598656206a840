//! The ring: every item once and whole, capacity exact, nothing after the close.

use super::{Met, Parcel, parcel};
use crate::ring::{Refusal, Ring};
use crate::sync::{Arc, Mutex, model, thread};

type Parcels = Ring<Box<Parcel>>;

fn item(content: u32) -> Box<Parcel> {
    parcel(0, content)
}

fn take(ring: &Parcels, max: usize) -> Vec<u32> {
    let mut out = Vec::new();
    // SAFETY: each model takes from one thread only (invariant 6 of the ring).
    unsafe { ring.take(max, &mut out) };
    out.into_iter().map(|item| item.content.get()).collect()
}

/// Two producers, one of them in bulk, over a segment border, and a consumer.
#[test]
fn every_item_arrives_once_and_each_producers_in_order() {
    let met = Met::default();
    let note = met.clone();
    model(move || {
        let ring = Arc::new(Ring::new(3));
        let single = {
            let ring = ring.clone();
            thread::spawn(move || ring.push(item(1)).is_ok())
        };
        let bulk = {
            let ring = ring.clone();
            thread::spawn(move || ring.push_many(&mut vec![item(2), item(3)].into_iter()).0)
        };
        let mut got = take(&ring, 2);
        note.note(["none at first", "one at first", "two at first"][got.len()]);
        assert!(single.join().unwrap());
        assert_eq!(bulk.join().unwrap(), 2);
        got.extend(take(&ring, 3));
        assert!(ring.is_empty());
        note.note(if got[0] == 1 { "single before bulk" } else { "bulk before single" });
        let (two, three) = (got.iter().position(|n| *n == 2), got.iter().position(|n| *n == 3));
        assert!(two < three);
        got.sort_unstable();
        assert_eq!(got, [1, 2, 3]);
    });
    met.exactly(&["none at first", "one at first", "two at first", "single before bulk", "bulk before single"]);
}

/// Around the ring: a place and a directory entry are used again while the consumer moves on.
#[test]
fn a_place_is_free_again_once_its_item_was_taken() {
    let met = Met::default();
    let note = met.clone();
    model(move || {
        let ring = Arc::new(Ring::new(2));
        assert!(ring.push(item(1)).is_ok() && ring.push(item(2)).is_ok());
        let producer = {
            let ring = ring.clone();
            thread::spawn(move || (3..=5).take_while(|n| ring.push(item(*n)).is_ok()).count())
        };
        let mut got = take(&ring, 1);
        got.extend(take(&ring, 2));
        let pushed = producer.join().unwrap();
        note.note(["full", "one more", "two more", "three more"][pushed]);
        got.extend(take(&ring, 4));
        assert!(got.into_iter().eq(1..=2 + pushed as u32));
    });
    met.exactly(&["full", "one more", "two more", "three more"]);
}

/// A used-up segment goes to a producer that has not heard of it from the consumer.
#[test]
fn a_segment_is_used_again_with_all_its_places_empty() {
    let met = Met::default();
    let note = met.clone();
    model(move || {
        let ring = Arc::new(Ring::new(4));
        let producer = {
            let ring = ring.clone();
            thread::spawn(move || ring.push(item(9)).is_ok())
        };
        assert!(ring.push(item(1)).is_ok() && ring.push(item(2)).is_ok());
        let mut got = take(&ring, 2);
        let before = got.contains(&9);
        assert!(producer.join().unwrap());
        got.extend(take(&ring, 4));
        note.note(if before { "in the first segment" } else { "later" });
        assert_eq!(got.iter().filter(|n| **n < 9).copied().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(got.len(), 3);
    });
    met.exactly(&["in the first segment", "later"]);
}

#[test]
fn the_capacity_is_exact() {
    let met = Met::default();
    let note = met.clone();
    model(move || {
        let ring = Arc::new(Ring::new(1));
        let other = {
            let ring = ring.clone();
            thread::spawn(move || usize::from(ring.push(item(1)).is_ok()))
        };
        let mine = usize::from(ring.push(item(2)).is_ok());
        let taken = take(&ring, 1).len();
        let accepted = mine + other.join().unwrap();
        note.note(["", "one accepted", "two accepted"][accepted]);
        assert!(accepted <= 1 + taken);
        assert_eq!(ring.len(), accepted - taken);
    });
    met.exactly(&["one accepted", "two accepted"]);
}

/// Producers under a lock of their own push without a compare-and-swap.
#[test]
fn serialised_producers_lose_nothing() {
    model(|| {
        let shared = Arc::new((Ring::new(4), Mutex::new(())));
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                let _lock = shared.1.lock();
                // SAFETY: all pushes of this model are made under the lock.
                unsafe { shared.0.push_serialised(item(1)).is_ok() }
            })
        };
        let mine = {
            let _lock = shared.1.lock();
            // SAFETY: as above.
            unsafe { shared.0.push_serialised(item(2)).is_ok() }
        };
        let mut got = take(&shared.0, 2);
        assert!(mine && other.join().unwrap());
        got.extend(take(&shared.0, 2));
        got.sort_unstable();
        assert_eq!(got, [1, 2]);
    });
}

#[test]
fn an_item_is_accepted_before_the_close_or_refused() {
    let met = Met::default();
    let note = met.clone();
    model(move || {
        let ring = Arc::new(Ring::new(2));
        let producer = {
            let ring = ring.clone();
            thread::spawn(move || ring.push(item(1)).map_err(|(_, why)| why))
        };
        ring.close();
        let at_close = ring.accepted();
        let early = take(&ring, 9);
        let pushed = producer.join().unwrap();
        assert_eq!(ring.accepted(), at_close, "nothing is accepted after the close");
        let all = [early, take(&ring, 9)].concat();
        match pushed {
            Ok(()) => {
                note.note("before");
                assert_eq!(all, [1]);
            }
            Err(why) => {
                note.note("refused");
                assert_eq!((why, all), (Refusal::Closed, vec![]));
            }
        }
    });
    met.exactly(&["before", "refused"]);
}
