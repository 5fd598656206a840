//! Waiters in lines, and a thread that makes room for them without the lock of the lines.

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, deep_model, thread};
use crate::wait::lines::Lines;
use crate::wait::thread::WaitingThread;
use crate::wait::tickets::{Offer, Ticket, Wake};

/// Room in two places, and the threads that wait for it: the name of a line is its place.
#[derive(Default)]
struct Places {
    room: [AtomicUsize; 2],
    lines: Lines<usize, usize>,
}

impl Places {
    fn look(&self) -> impl Fn(&usize) -> Offer {
        |place| Offer::of(self.room[*place].load(Ordering::Relaxed))
    }

    fn free_one(&self, place: usize) {
        self.room[place].fetch_add(1, Ordering::Relaxed);
        self.lines.wake(self.look());
    }

    fn enter(&self, ticket: Option<Ticket>, place: usize, waker: Box<dyn Wake>) -> Ticket {
        self.lines.enter(ticket, |_| place, || place, waker, self.look())
    }

    /// Takes one slot, after a wait for it.
    fn take_one(&self, place: usize) {
        let (mut ticket, thread) = (None, WaitingThread::default());
        let take = |at: usize| at.checked_sub(1);
        while self.room[place].fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            ticket = Some(self.enter(ticket, place, thread.waker()));
            thread.sleep();
        }
        ticket.into_iter().for_each(|ticket| self.lines.leave(place, ticket, self.look()));
    }
}

fn take_aside(places: &Arc<Places>, place: usize) -> thread::JoinHandle<()> {
    let places = places.clone();
    thread::spawn(move || places.take_one(place))
}

#[test]
fn a_waiter_is_woken_by_room_that_is_made_without_the_lock() {
    deep_model(|| {
        let places = Arc::<Places>::default();
        let taker = take_aside(&places, 0);
        places.free_one(0);
        taker.join().unwrap();
        assert_eq!(places.room[0].load(Ordering::Relaxed), 0);
    });
}

#[test]
fn the_token_of_a_waiter_that_cannot_be_reached_goes_to_the_next_of_its_line() {
    struct Unreachable;
    impl Wake for Unreachable {
        fn wake(self: Box<Self>) -> bool {
            false
        }
    }
    deep_model(|| {
        let places = Arc::<Places>::default();
        let lost = [0, 1].map(|place| places.enter(None, place, Box::new(Unreachable)));
        let taker = take_aside(&places, 0);
        places.free_one(0);
        taker.join().unwrap();
        lost.into_iter().zip([0, 1]).for_each(|(ticket, place)| places.lines.leave(place, ticket, places.look()));
    });
}
