//! Waiters under the lock of their queue: no waiter sleeps while there is something for it.

use crate::sync::{Arc, Mutex, model, thread};
use crate::wait::thread::WaitingThread;
use crate::wait::tickets::{Offer, Request, Ticket, Tickets, Wakes};

/// The number of available items, and the threads that wait for an item.
#[derive(Default)]
struct Items {
    available: usize,
    takers: Tickets,
    last_ticket: Ticket,
}

type Shared = Arc<Mutex<Items>>;

/// Runs one step under the lock, then wakes the waiters that the step notified.
fn step<R>(shared: &Shared, change: impl FnOnce(&mut Items) -> R) -> R {
    let mut wakes = Wakes::new();
    let mut items = shared.lock();
    let result = change(&mut items);
    let offer = Offer::of(items.available);
    items.takers.notify(offer, (), &mut wakes);
    drop(items);
    wakes.into_iter().for_each(|((), _, waker)| assert!(waker.wake()));
    result
}

fn enter(shared: &Shared, ticket: Option<Ticket>, thread: &WaitingThread) -> Ticket {
    step(shared, |items| {
        items.last_ticket += u64::from(ticket.is_none());
        let ticket = ticket.unwrap_or(items.last_ticket);
        items.takers.enter(ticket, Request::of(1), thread.waker());
        ticket
    })
}

fn try_take(shared: &Shared) -> bool {
    step(shared, |items| {
        let found = items.available > 0;
        items.available -= usize::from(found);
        found
    })
}

fn take(shared: &Shared) {
    let (mut ticket, thread) = (None, WaitingThread::default());
    while !try_take(shared) {
        ticket = Some(enter(shared, ticket, &thread));
        thread.sleep();
    }
    ticket.into_iter().for_each(|ticket| step(shared, |items| drop(items.takers.leave(ticket))));
}

#[test]
fn a_waiter_is_woken_for_what_it_waits_for() {
    model(|| {
        let shared = Shared::default();
        let taker = {
            let shared = shared.clone();
            thread::spawn(move || take(&shared))
        };
        step(&shared, |items| items.available += 1);
        taker.join().unwrap();
        assert_eq!(shared.lock().takers.blocked(), 0);
    });
}

#[test]
fn a_waiter_that_leaves_passes_its_token_on() {
    model(|| {
        let shared = Shared::default();
        let ticket = enter(&shared, None, &WaitingThread::default());
        let taker = {
            let shared = shared.clone();
            thread::spawn(move || take(&shared))
        };
        step(&shared, |items| items.available += 1);
        step(&shared, |items| drop(items.takers.leave(ticket)));
        taker.join().unwrap();
        assert_eq!(shared.lock().takers.blocked(), 0);
    });
}

#[test]
#[cfg(not(any(loom, drainq_shuttle)))]
fn the_first_to_enter_is_the_first_to_be_notified() {
    let (mut tickets, mut wakes) = (Tickets::default(), Wakes::new());
    let threads = [WaitingThread::default(), WaitingThread::default()];
    for (ticket, thread) in (1..).zip(&threads) {
        tickets.enter(ticket, Request::of(1), thread.waker());
    }
    tickets.notify(Offer::of(1), (), &mut wakes);
    wakes.into_iter().for_each(|(_, _, waker)| assert!(waker.wake()));
    assert_eq!(threads.map(|thread| thread.is_woken()), [true, false]);
}

#[test]
#[cfg(not(any(loom, drainq_shuttle)))]
fn a_tag_notifies_its_own_waiters_and_no_others() {
    let (mut tickets, mut wakes) = (Tickets::default(), Wakes::new());
    let threads = [7, 8, 7].map(|tag| (tag, WaitingThread::default()));
    for (ticket, (tag, thread)) in (1..).zip(&threads) {
        tickets.enter(ticket, Request { need: 1, tag: *tag }, thread.waker());
    }
    tickets.notify_tagged(7, (), &mut wakes);
    wakes.into_iter().for_each(|(_, _, waker)| assert!(waker.wake()));
    assert_eq!(threads.map(|(_, thread)| thread.is_woken()), [true, false, true]);
    tickets.notify(Offer::of(1), (), &mut Wakes::new());
    assert!(tickets.is_idle(), "nothing is promised to the waiters with the tag");
}
