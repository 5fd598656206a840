//! The ring: every item arrives once and whole, the capacity is exact, and no item is accepted after the close.

use super::{Met, Queued, Race};
use crate::ring::{Refusal, Ring};
use crate::sync::{Arc, Mutex, deep_model, model, thread};

/// Makes two tests of each model: one with word items, and one with inline items.
macro_rules! in_both_slots {
    ($($model:ident),*) => {
        mod words {
            $(#[test] fn $model() { super::$model::<Box<crate::models::Parcel>>(); })*
        }

        mod inline {
            $(#[test] fn $model() { super::$model::<crate::models::Small>(); })*
        }
    };
}

in_both_slots!(
    a_producer_may_go_by_what_another_saw_of_the_consumer,
    every_item_arrives_once_and_each_producers_in_order,
    a_slot_is_free_again_once_its_item_was_taken,
    a_segment_is_used_again_with_all_its_slots_empty,
    two_producers_never_get_the_same_spare_segment,
    the_length_is_never_negative,
    the_capacity_is_exact,
    on_the_fast_path_every_slot_was_free,
    on_the_fast_path_the_capacity_is_exact,
    nothing_takes_the_fast_path_after_the_close,
    serialised_producers_lose_nothing,
    serialised_producers_lose_nothing_on_the_fast_path,
    an_item_is_accepted_before_the_close_or_refused
);

/// A ring, and the race of which each call takes a step first.
struct Raced<T: Queued> {
    ring: Ring<T>,
    race: Race,
}

impl<T: Queued> Raced<T> {
    fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self { ring: Ring::new(capacity), race: Race::default() })
    }

    fn push(&self, content: u32) -> Result<(), Refusal> {
        self.race.step();
        self.ring.push(T::new(content)).map_err(|(_, why)| why)
    }

    fn push_many(&self, contents: &[u32]) -> usize {
        self.race.step();
        let items: Vec<_> = contents.iter().map(|content| T::new(*content)).collect();
        self.ring.push_many(&mut items.into_iter(), usize::MAX).0
    }

    fn take(&self, max: usize) -> Vec<u32> {
        self.race.step();
        let mut out = Vec::new();
        // SAFETY: each model takes from one thread only (invariant 6 of the ring).
        unsafe { self.ring.take(max, &mut out) };
        out.iter().map(T::content).collect()
    }

    fn close(&self) -> u64 {
        self.race.step();
        self.ring.close();
        self.ring.accepted()
    }
}

/// The second producer relies on the limit that the first one found, and claims two slots. The consumer has just
/// emptied the directory entry of the second slot's segment.
fn a_producer_may_go_by_what_another_saw_of_the_consumer<T: Queued>() {
    deep_model(|| {
        let ring = Raced::<T>::new(2);
        assert!(ring.push(1).is_ok());
        assert_eq!(ring.take(1), [1]);
        assert!(ring.push(2).is_ok() && ring.push(3).is_ok());
        let producers = [vec![4], vec![5, 6]].map(|contents| {
            let ring = ring.clone();
            thread::spawn(move || contents.into_iter().filter(|n| ring.push(*n).is_ok()).collect::<Vec<_>>())
        });
        let mut taken = ring.take(2);
        let mut expected = vec![2, 3];
        for producer in producers {
            expected.extend(producer.join().unwrap());
        }
        taken.extend(ring.take(8));
        taken.sort_unstable();
        assert_eq!(taken, expected);
    });
}

/// Two producers push across a segment border, one of them in bulk, while a consumer takes.
fn every_item_arrives_once_and_each_producers_in_order<T: Queued>() {
    let met = Met::default();
    let note = met.clone();
    deep_model(move || {
        let ring = Raced::<T>::new(3);
        let single = {
            let ring = ring.clone();
            thread::spawn(move || ring.push(1).is_ok())
        };
        let bulk = {
            let ring = ring.clone();
            thread::spawn(move || ring.push_many(&[2, 3]))
        };
        let mut got = ring.take(2);
        note.note(["none at first", "one at first", "two at first"][got.len()]);
        assert!(single.join().unwrap());
        assert_eq!(bulk.join().unwrap(), 2);
        got.extend(ring.take(3));
        assert!(ring.ring.is_empty());
        note.note(if got[0] == 1 { "single before bulk" } else { "bulk before single" });
        let (two, three) = (got.iter().position(|n| *n == 2), got.iter().position(|n| *n == 3));
        assert!(two < three);
        got.sort_unstable();
        assert_eq!(got, [1, 2, 3]);
    });
    met.exactly(&["none at first", "one at first", "two at first", "single before bulk", "bulk before single"]);
}

/// Around the ring: a slot and a directory entry are used again while the consumer moves on.
fn a_slot_is_free_again_once_its_item_was_taken<T: Queued>() {
    let met = Met::default();
    let note = met.clone();
    deep_model(move || {
        let ring = Raced::<T>::new(2);
        assert!(ring.push(1).is_ok() && ring.push(2).is_ok());
        let producer = {
            let ring = ring.clone();
            thread::spawn(move || (3..=5).take_while(|n| ring.push(*n).is_ok()).count())
        };
        let mut got = ring.take(1);
        got.extend(ring.take(2));
        let pushed = producer.join().unwrap();
        note.note(["full", "one more", "two more", "three more"][pushed]);
        got.extend(ring.take(4));
        assert!(got.into_iter().eq(1..=2 + pushed as u32));
    });
    met.exactly(&["full", "one more", "two more", "three more"]);
}

/// A used-up segment goes to a producer that has not synchronised with the consumer.
fn a_segment_is_used_again_with_all_its_slots_empty<T: Queued>() {
    let met = Met::default();
    let note = met.clone();
    deep_model(move || {
        let ring = Raced::<T>::new(4);
        let producer = {
            let ring = ring.clone();
            thread::spawn(move || ring.push(9).is_ok())
        };
        assert!(ring.push(1).is_ok() && ring.push(2).is_ok());
        let mut got = ring.take(2);
        let before = got.contains(&9);
        assert!(producer.join().unwrap());
        got.extend(ring.take(4));
        note.note(if before { "in the first segment" } else { "later" });
        assert_eq!(got.iter().filter(|n| **n < 9).copied().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(got.len(), 3);
    });
    met.exactly(&["in the first segment", "later"]);
}

/// Two producers take from a list of spare segments, to which the consumer adds one.
fn two_producers_never_get_the_same_spare_segment<T: Queued>() {
    model(|| {
        let ring = Raced::<T>::new(8);
        assert_eq!(ring.push_many(&[1, 2, 3, 4, 5, 6, 7, 8]), 8);
        assert_eq!(ring.take(4), [1, 2, 3, 4]);
        let producers = [[9, 10], [11, 12]].map(|contents| {
            let ring = ring.clone();
            thread::spawn(move || ring.push_many(&contents))
        });
        let mut got = ring.take(2);
        producers.into_iter().for_each(|producer| assert_eq!(producer.join().unwrap(), 2));
        got.extend(ring.take(8));
        got.sort_unstable();
        assert!(got.into_iter().eq(5..=12));
    });
}

/// A thread that only reads never sees more taken than accepted.
fn the_length_is_never_negative<T: Queued>() {
    let met = Met::default();
    let note = met.clone();
    deep_model(move || {
        let ring = Raced::<T>::new(2);
        let reader = {
            let ring = ring.clone();
            thread::spawn(move || {
                ring.race.step();
                ring.ring.len()
            })
        };
        let producer = {
            let ring = ring.clone();
            thread::spawn(move || ring.push(1).is_ok())
        };
        let taken = ring.take(1).len();
        note.note(["not taken", "taken"][taken]);
        note.note(["seen empty", "seen full"][reader.join().unwrap()]);
        assert!(producer.join().unwrap());
        assert_eq!(ring.ring.len(), 1 - taken);
    });
    met.exactly(&["not taken", "taken", "seen empty", "seen full"]);
}

fn the_capacity_is_exact<T: Queued>() {
    let met = Met::default();
    let note = met.clone();
    deep_model(move || {
        let ring = Raced::<T>::new(1);
        let other = {
            let ring = ring.clone();
            thread::spawn(move || usize::from(ring.push(1).is_ok()))
        };
        let mine = usize::from(ring.push(2).is_ok());
        let taken = ring.take(1).len();
        let accepted = mine + other.join().unwrap();
        note.note(["", "one accepted", "two accepted"][accepted]);
        assert!(accepted <= 1 + taken);
        assert_eq!(ring.ring.len(), accepted - taken);
    });
    met.exactly(&["one accepted", "two accepted"]);
}

/// Pushes by the fast path if it is open or can be opened; else with a claim.
///
/// # Safety
///
/// That of [`Ring::push_serialised`].
unsafe fn push_under_lock<T: Queued>(ring: &Ring<T>, content: u32, share: u64) -> Result<&'static str, Refusal> {
    let mut item = Some(T::new(content));
    // SAFETY: the caller's promise.
    let mut fast = || unsafe { ring.push_fast(|| item.take().expect("asked for once")) };
    // SAFETY: the caller's promise.
    if fast() || unsafe { ring.open_fast_path(share, u64::MAX) } > 0 && fast() {
        return Ok("fast path");
    }
    // SAFETY: the caller's promise.
    unsafe { ring.push_serialised(item.take().expect("the fast path was closed")) }.map_err(|(_, why)| why)?;
    Ok("by a claim")
}

/// A push on the fast path does not read the head: the slots of the previous round were empty when the fast path was
/// opened.
fn on_the_fast_path_every_slot_was_free<T: Queued>() {
    let met = Met::default();
    let note = met.clone();
    deep_model(move || {
        let ring = Raced::<T>::new(2);
        // SAFETY: one thread at a time pushes.
        let push = |ring: &Raced<T>, content| unsafe { push_under_lock(&ring.ring, content, 1) };
        assert!(push(&ring, 1).is_ok() && push(&ring, 2).is_ok());
        let producer = {
            let (ring, note) = (ring.clone(), note.clone());
            let push = move |n| {
                ring.race.step();
                // SAFETY: one thread at a time pushes.
                let how = unsafe { push_under_lock(&ring.ring, n, 1) };
                note.note(how.as_ref().unwrap_or(&"full"));
                how.is_ok()
            };
            thread::spawn(move || (3..=5).take_while(|n| push(*n)).count())
        };
        let mut got = ring.take(1);
        got.extend(ring.take(2));
        let pushed = producer.join().unwrap();
        got.extend(ring.take(4));
        assert!(got.into_iter().eq(1..=2 + pushed as u32));
    });
    met.exactly(&["fast path", "by a claim", "full"]);
}

/// The fast path is open only for as many items as there is room.
fn on_the_fast_path_the_capacity_is_exact<T: Queued>() {
    let met = Met::default();
    let note = met.clone();
    deep_model(move || {
        let ring = Raced::<T>::new(1);
        let producer = {
            let ring = ring.clone();
            let push = move |n| {
                ring.race.step();
                // SAFETY: only this thread pushes.
                unsafe { push_under_lock(&ring.ring, n, 1) }.is_ok()
            };
            thread::spawn(move || (1..=3).take_while(|n| push(*n)).count())
        };
        let taken = ring.take(1).len();
        let pushed = producer.join().unwrap();
        note.note(["none", "one", "two", "three"][pushed]);
        assert!(pushed <= taken + 1, "{pushed} were pushed, {taken} taken");
    });
    met.exactly(&["one", "two"]);
}

/// A close under the lock closes the fast path.
fn nothing_takes_the_fast_path_after_the_close<T: Queued>() {
    let met = Met::default();
    let note = met.clone();
    deep_model(move || {
        let shared = Arc::new((Ring::<T>::new(4), Mutex::new(())));
        // SAFETY: all pushes, and the close, are made under the lock, or before the threads start.
        assert_eq!(unsafe { push_under_lock(&shared.0, 1, 1) }, Ok("fast path"));
        let closer = {
            let shared = shared.clone();
            thread::spawn(move || {
                let _lock = shared.1.lock();
                shared.0.close();
                shared.0.accepted()
            })
        };
        let pushed = {
            let _lock = shared.1.lock();
            // SAFETY: as above.
            unsafe { push_under_lock(&shared.0, 2, 1) }
        };
        note.note(pushed.as_ref().unwrap_or(&"refused"));
        assert_eq!(closer.join().unwrap(), 1 + u64::from(pushed.is_ok()));
    });
    met.exactly(&["fast path", "refused"]);
}

/// Producers that share a lock, on the fast path or not. The consumer has no lock.
fn serialised_producers<T: Queued>(share: u64, how: &'static str) {
    let met = Met::default();
    let note = met.clone();
    model(move || {
        let shared = Arc::new((Raced::<T>::new(4), Mutex::new(())));
        let producers = [1, 2].map(|content| {
            let (shared, note) = (shared.clone(), note.clone());
            thread::spawn(move || {
                let _lock = shared.1.lock();
                shared.0.race.step();
                // SAFETY: all pushes of this model are made under the lock.
                note.note(unsafe { push_under_lock(&shared.0.ring, content, share) }.expect("there is room"));
            })
        });
        let mut got = shared.0.take(2);
        note.note(["none at first", "one at first", "two at first"][got.len()]);
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        got.extend(shared.0.take(2));
        got.sort_unstable();
        assert_eq!(got, [1, 2]);
    });
    met.exactly(&[how, "none at first", "one at first", "two at first"]);
}

fn serialised_producers_lose_nothing<T: Queued>() {
    serialised_producers::<T>(8, "by a claim");
}

fn serialised_producers_lose_nothing_on_the_fast_path<T: Queued>() {
    serialised_producers::<T>(1, "fast path");
}

fn an_item_is_accepted_before_the_close_or_refused<T: Queued>() {
    let met = Met::default();
    let note = met.clone();
    deep_model(move || {
        let ring = Raced::<T>::new(2);
        let producer = {
            let ring = ring.clone();
            thread::spawn(move || ring.push(1))
        };
        let at_close = ring.close();
        let early = ring.take(9);
        let pushed = producer.join().unwrap();
        assert_eq!(ring.ring.accepted(), at_close, "nothing is accepted after the close");
        let all = [early, ring.take(9)].concat();
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
