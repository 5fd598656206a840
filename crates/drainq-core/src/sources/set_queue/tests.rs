//! Tests single steps of the set queue, under a model checker too, so that a planted fault is noticed here:
//! `set_queue_slots` (the slot of a forgotten entry is not used again), `set_queue_polls` (poll tokens start anew after
//! a reset), `set_queue_fence` (an entry that is done during a poll does not stay known).

use super::*;
use crate::sync::model;

const SECOND: Duration = Duration::from_secs(1);

fn put(queue: &mut SetQueue<u8>, entry: u8) -> bool {
    let absent = queue.table().find(0, |known| Same::from(*known == entry)) == Lookup::Absent;
    if absent {
        queue.push(0, entry);
    }
    absent
}

fn take(queue: &mut SetQueue<u8>, now: Duration) -> Option<u8> {
    queue.take(now, |known| *known, |taken| taken)
}

fn done(queue: &mut SetQueue<u8>, entry: u8, now: Duration) -> bool {
    match queue.table().find(0, |known| Same::from(*known == entry)) {
        Lookup::Known(entry_id, _) => queue.done(entry_id, now).is_ok(),
        _ => false,
    }
}

#[test]
fn an_entry_in_flight_is_known_until_it_is_done() {
    model(|| {
        let mut queue = SetQueue::new(AfterTake::Track(Duration::ZERO));
        assert!(put(&mut queue, 1));
        assert_eq!(take(&mut queue, SECOND), Some(1));
        assert!(!put(&mut queue, 1));
        assert!(done(&mut queue, 1, SECOND));
        assert!(!done(&mut queue, 1, SECOND));
        assert!(put(&mut queue, 1));
    });
}

#[test]
fn an_answer_that_is_unsure_names_the_entry() {
    model(|| {
        let mut queue = SetQueue::new(AfterTake::Forget);
        queue.push(0, 7);
        assert_eq!(queue.table().find(0, |_| Same::Unsure), Lookup::Unsure(&7));
    });
}

#[test]
fn a_large_table_is_given_back_when_nothing_is_known() {
    let mut queue = SetQueue::new(AfterTake::Forget);
    for entry in 0..100_000_u64 {
        queue.push(entry, entry);
    }
    while queue.take(SECOND, |known| *known, |taken| taken).is_some() {}
    assert_eq!((queue.table.slots.capacity(), queue.waiting.capacity()), (0, 0));
}

#[test]
fn slots_are_used_again() {
    model(|| {
        let mut queue = SetQueue::new(AfterTake::Forget);
        for entry in 0..100 {
            assert!(put(&mut queue, entry));
            assert_eq!(take(&mut queue, SECOND), Some(entry));
        }
        assert_eq!(queue.table.slots.len(), 1);
    });
}

#[test]
fn a_token_of_a_poll_is_never_given_twice() {
    model(|| {
        let mut queue = SetQueue::<u8>::new(AfterTake::Track(Duration::ZERO));
        let mut begun = Vec::new();
        for _ in 0..3 {
            begun.push(queue.begin_poll());
            begun.push(queue.begin_poll());
            queue.reset();
        }
        begun.dedup();
        assert!(begun.is_sorted() && begun.len() == 6);
        assert!(begun.iter().all(|poll| !queue.end_poll(*poll)));
    });
}

#[test]
fn an_entry_done_during_a_poll_stays_known_until_it_ends() {
    model(|| {
        let mut queue = SetQueue::new(AfterTake::Track(Duration::ZERO));
        assert!(put(&mut queue, 1));
        assert_eq!(take(&mut queue, SECOND), Some(1));
        let poll = queue.begin_poll();
        assert!(done(&mut queue, 1, SECOND));
        assert!(!put(&mut queue, 1));
        assert!(queue.end_poll(poll));
        queue.forget_due(SECOND, &mut Vec::new());
        assert!(put(&mut queue, 1));
    });
}
