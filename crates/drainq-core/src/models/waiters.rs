//! Producers that wait for room, against the drain thread that frees it, and against the close.

use super::{Met, Parcel, parcel};
use crate::ring::{Refusal, Ring};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Arc, deep_model, thread};
use crate::wait::waiters::Waiters;
use std::time::Duration;

const FOR_EVER: Duration = Duration::from_secs(3600);

/// Room as a number, and the producers that wait for it.
struct Room {
    waiters: Waiters,
    slots: AtomicUsize,
}

impl Room {
    fn new() -> Arc<Self> {
        Arc::new(Self { waiters: Waiters::new(), slots: AtomicUsize::new(0) })
    }

    fn free_one(&self) {
        self.slots.fetch_add(1, Ordering::Relaxed);
        self.waiters.notify(1);
    }

    /// Takes one slot, waiting for it; returns how often it had to wait.
    fn take_one(&self) -> usize {
        let mut waiter = self.waiters.enter();
        let mut waits = 0;
        let take = |at: usize| at.checked_sub(1);
        while self.slots.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            waiter.wait(FOR_EVER);
            waits += 1;
        }
        waiter.served();
        waits
    }
}

#[test]
fn a_waiting_producer_is_notified_when_a_slot_is_freed() {
    let met = Met::default();
    let note = met.clone();
    deep_model(move || {
        let room = Room::new();
        let producer = {
            let room = room.clone();
            thread::spawn(move || room.take_one())
        };
        room.free_one();
        note.note(["found room at once", "notified"][producer.join().unwrap().min(1)]);
        assert_eq!(room.waiters.len(), 0);
    });
    met.exactly(&["found room at once", "notified"]);
}

/// Two producers wait and two slots are freed: each producer gets a slot, also if one of them finds by itself the
/// slot that was freed for the other.
#[test]
fn each_freed_slot_finds_its_producer() {
    deep_model(|| {
        let room = Room::new();
        let producers: Vec<_> = (0..2)
            .map(|_| {
                let room = room.clone();
                thread::spawn(move || room.take_one())
            })
            .collect();
        room.free_one();
        room.free_one();
        for producer in producers {
            producer.join().unwrap();
        }
        assert_eq!((room.waiters.len(), room.slots.load(Ordering::Relaxed)), (0, 0));
    });
}

#[test]
fn a_notified_producer_that_gives_up_notifies_the_next() {
    deep_model(|| {
        let shared = Arc::new((Waiters::new(), AtomicBool::new(false)));
        let first = shared.0.enter();
        let next = {
            let shared = shared.clone();
            thread::spawn(move || {
                let mut waiter = shared.0.enter();
                while !shared.1.load(Ordering::Relaxed) {
                    waiter.wait(FOR_EVER);
                }
                waiter.served();
            })
        };
        shared.1.store(true, Ordering::Relaxed);
        shared.0.notify(1);
        drop(first);
        next.join().unwrap();
    });
}

/// A full ring, a producer that waits in front of it, a consumer that empties it.
#[test]
fn a_blocked_producer_gets_the_slot_that_the_consumer_frees() {
    blocked_producer(|ring, waiters| {
        let mut out: Vec<Box<Parcel>> = Vec::new();
        // SAFETY: this thread alone takes.
        waiters.notify(unsafe { ring.take(1, &mut out) });
        assert_eq!(out[0].content.get(), 1);
    })
    .exactly(&["accepted"]);
}

/// A full ring, a producer that waits in front of it, and the close.
#[test]
fn a_blocked_producer_gets_its_item_back_at_the_close() {
    blocked_producer(|ring, waiters| {
        ring.close();
        waiters.notify_all();
    })
    .exactly(&["closed"]);
}

fn blocked_producer(release: fn(&Ring<Box<Parcel>>, &Waiters)) -> Met {
    let met = Met::default();
    let note = met.clone();
    deep_model(move || {
        let shared = Arc::new((Ring::new(1), Waiters::new()));
        assert!(shared.0.push(parcel(0, 1)).is_ok());
        let producer = {
            let shared = shared.clone();
            thread::spawn(move || {
                let mut waiter = shared.1.enter();
                let mut item = parcel(0, 2);
                loop {
                    match shared.0.push(item) {
                        Ok(()) => {
                            waiter.served();
                            return "accepted";
                        }
                        Err((_, Refusal::Closed | Refusal::NoMemory)) => return "closed",
                        Err((back, Refusal::Full)) => item = back,
                    }
                    waiter.wait(FOR_EVER);
                }
            })
        };
        release(&shared.0, &shared.1);
        note.note(producer.join().unwrap());
        assert_eq!(shared.1.len(), 0);
    });
    met
}
