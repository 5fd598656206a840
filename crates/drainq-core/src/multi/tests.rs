//! Tests of single steps on one thread: waiting bulk gets, unused wake-ups, a forked child.
//!
//! They run under a model checker too, so that a planted fault is noticed here: `multi_reclaim` (the
//! held items of a removed sub-queue do not go back to it), `tickets_lapse` (the token of a stalled
//! waiter does not lapse), `multi_slots` (the slot of a removed sub-queue is not used again).

use super::{Gathered, MultiQueue, Order, PutRefusal, ShutdownMode, SubQueue, SubQueueSettings, Wait};
use crate::clock::ManualClock;
use crate::sync::model;
use crate::wait::thread::WaitingThread;
use crate::wait::tickets::{Stalled, Wake};

type Queue = MultiQueue<u32, ()>;

fn queue() -> Queue {
    MultiQueue::new(Order::Priority, ManualClock::new())
}

fn sub_of(queue: &Queue, capacity: usize) -> SubQueue<u32, ()> {
    queue.add((), SubQueueSettings { priority: 0, capacity, weight: 1 }, None).expect("it is not shut down")
}

/// Enters the waiters. The returned thread knows whether it was woken.
fn enter(wait: &mut Wait<u32, ()>) -> WaitingThread {
    let sleeper = WaitingThread::default();
    wait.enter(sleeper.waker());
    sleeper
}

/// A task of an event loop that does not run: the task can be notified, but never tries again.
struct Asleep;

impl Wake for Asleep {
    fn wake(self: Box<Self>) -> bool {
        true
    }
}

#[test]
fn a_waiting_bulk_getter_takes_nothing() {
    model(|| {
        let queue = queue();
        let sub = sub_of(&queue, usize::MAX);
        let mut wait = queue.getter();
        sub.try_put(1).unwrap();
        assert_eq!(wait.gather(2, 2), Gathered::TooFew);
        let sleeper = enter(&mut wait);
        assert!(!sleeper.is_woken());
        assert_eq!((queue.len(), wait.held()), (1, 0));
        sub.try_put(2).unwrap();
        assert!(sleeper.is_woken());
        assert_eq!(wait.gather(2, 2), Gathered::Enough);
        assert_eq!(wait.finish(), [1, 2]);
    });
}

#[test]
fn a_getter_of_one_behind_a_bulk_getter_is_woken_for_one_item() {
    model(|| {
        let queue = queue();
        let sub = sub_of(&queue, usize::MAX);
        let (mut bulk, mut single) = (queue.getter(), queue.getter());
        assert_eq!(bulk.gather(2, 2), Gathered::TooFew);
        let (bulk_sleeper, single_sleeper) = (enter(&mut bulk), enter(&mut single));
        sub.try_put(1).unwrap();
        assert!(!bulk_sleeper.is_woken() && single_sleeper.is_woken());
    });
}

#[test]
fn only_the_first_bulk_getter_holds() {
    model(|| {
        let queue = queue();
        let sub = sub_of(&queue, 1);
        let (mut first, mut second) = (queue.getter(), queue.getter());
        assert_eq!(first.gather(2, 2), Gathered::TooFew);
        enter(&mut first);
        assert_eq!(second.gather(3, 3), Gathered::TooFew);
        let second_sleeper = enter(&mut second);
        sub.try_put(1).unwrap();
        assert!(!second_sleeper.is_woken());
        assert_eq!((second.gather(3, 3), second.held()), (Gathered::TooFew, 0));
        assert_eq!((first.gather(2, 2), first.held()), (Gathered::TooFew, 1));
        assert_eq!((queue.len(), sub.stats().depth, sub.stats().counters.got), (0, 1, 0));
        sub.try_put(2).unwrap();
        assert_eq!((first.gather(2, 2), first.finish()), (Gathered::Enough, vec![1, 2]));
    });
}

#[test]
fn what_a_bulk_getter_holds_goes_back_to_the_head_when_it_leaves() {
    model(|| {
        let queue = queue();
        let sub = sub_of(&queue, 2);
        let mut wait = queue.getter();
        sub.try_put(1).unwrap();
        sub.try_put(2).unwrap();
        assert_eq!((wait.gather(3, 3), wait.held()), (Gathered::TooFew, 2));
        sub.try_put(3).unwrap();
        drop(wait);
        assert_eq!([queue.try_get(), queue.try_get(), queue.try_get()], [Ok(1), Ok(2), Ok(3)]);
        let (_, total, blocked) = queue.stats(&[]);
        assert_eq!((total.counters.put, total.counters.got, total.depth, blocked), (3, 3, 0, 0));
    });
}

#[test]
fn what_is_held_of_a_removed_sub_queue_stays_with_it() {
    model(|| {
        let queue = queue();
        let (gone, stays) = (sub_of(&queue, 1), sub_of(&queue, 1));
        let mut wait = queue.getter();
        gone.try_put(1).unwrap();
        stays.try_put(2).unwrap();
        assert_eq!((wait.gather(3, 3), wait.held()), (Gathered::TooFew, 2));
        assert!(gone.retire());
        assert_eq!((wait.held(), gone.clear()), (1, vec![1]));
        drop(wait);
        assert_eq!(queue.try_get(), Ok(2));
        let (_, total, _) = queue.stats(&[]);
        assert_eq!((total.counters.put, total.counters.got, total.counters.removed), (2, 1, 1));
    });
}

#[test]
fn what_is_held_at_an_immediate_shutdown_is_handed_out_or_discarded() {
    model(|| {
        for is_handed_out in [true, false] {
            let queue = queue();
            let sub = sub_of(&queue, 1);
            let mut wait = queue.getter();
            sub.try_put(1).unwrap();
            assert_eq!(wait.gather(2, 2), Gathered::TooFew);
            assert_eq!(queue.shut_down(ShutdownMode::Discard), Vec::<u32>::new());
            if is_handed_out {
                assert_eq!((wait.gather(2, 2), wait.finish()), (Gathered::Enough, vec![1]));
            }
            drop(wait);
            let (_, total, _) = queue.stats(&[]);
            assert_eq!((total.counters.got, total.depth), (u64::from(is_handed_out), 0));
            assert_eq!(total.counters.got + total.counters.removed, 1);
        }
    });
}

#[test]
fn one_by_one_a_bulk_getter_gives_back_what_is_too_little() {
    model(|| {
        let queue = queue();
        let sub = sub_of(&queue, usize::MAX);
        sub.try_put(1).unwrap();
        sub.try_put(2).unwrap();
        let mut wait = queue.getter();
        assert!(wait.may_gather(2));
        assert!(sub.hold(&wait));
        assert_eq!(queue.try_get(), Ok(2));
        assert!(!sub.hold(&wait));
        assert_eq!(wait.keep_or_give_back(2), Gathered::TooFew);
        assert_eq!((wait.held(), queue.try_get()), (0, Ok(1)));
    });
}

#[test]
fn a_wake_up_that_is_not_used_between_two_looks_goes_to_the_next() {
    model(|| {
        let queue = queue();
        let sub = sub_of(&queue, usize::MAX);
        let (mut stopped, mut next) = (queue.getter(), queue.getter());
        stopped.enter(Box::new(Asleep));
        let sleeper = enter(&mut next);
        sub.try_put(7).unwrap();
        assert!(next.find_stalled().is_none(), "it may have been given just now");
        assert!(!sleeper.is_woken());
        let stalled = next_stalled(&mut next);
        next.pass_stalled_on(stalled);
        assert!(sleeper.is_woken());
        assert_eq!(queue.stats(&[]).2, 2);
        assert_eq!(queue.try_get(), Ok(7));
        drop((stopped, next));
        assert_eq!(queue.stats(&[]).2, 0);
    });
}

fn next_stalled(wait: &mut Wait<u32, ()>) -> Stalled {
    wait.find_stalled().expect("one wake-up has been under way since the last look")
}

#[test]
fn a_wake_up_given_or_used_since_the_last_look_is_not_stalled() {
    model(|| {
        let queue = queue();
        let sub = sub_of(&queue, usize::MAX);
        let mut waits = [queue.getter(), queue.getter()];
        enter(&mut waits[0]);
        enter(&mut waits[1]);
        for _ in 0..3 {
            sub.try_put(1).unwrap();
            assert!(waits[1].find_stalled().is_none(), "given since the last look");
            assert_eq!(queue.try_get(), Ok(1));
            enter(&mut waits[0]);
            assert!(waits[1].find_stalled().is_none(), "used since the last look");
        }
    });
}

#[test]
fn a_task_whose_token_lapsed_keeps_its_seniority() {
    model(|| {
        let queue = queue();
        let sub = sub_of(&queue, usize::MAX);
        let (mut stopped, mut next) = (queue.getter(), queue.getter());
        stopped.enter(Box::new(Asleep));
        let sleeper = enter(&mut next);
        sub.try_put(1).unwrap();
        assert!(next.find_stalled().is_none());
        let stalled = next_stalled(&mut next);
        next.pass_stalled_on(stalled);
        assert!(sleeper.is_woken());
        assert_eq!(queue.try_get(), Ok(1));
        let (next_sleeper, stopped_sleeper) = (enter(&mut next), enter(&mut stopped));
        sub.try_put(2).unwrap();
        assert!(stopped_sleeper.is_woken() && !next_sleeper.is_woken());
    });
}

#[test]
fn room_in_a_sub_queue_without_getters_is_given_and_none_is_waited_for() {
    model(|| {
        let queue = queue();
        let sub = sub_of(&queue, 1);
        drop(queue);
        assert_eq!(sub.try_put(1), Ok(()));
        assert_eq!(sub.put(2), Err((2, PutRefusal::Orphaned)));
        assert_eq!(sub.clear(), [1]);
        assert_eq!(sub.put(3), Ok(()));
    });
}

#[test]
fn slots_of_removed_sub_queues_are_used_again_and_given_back() {
    model(|| {
        let queue = queue();
        let kept = sub_of(&queue, 1);
        for _ in 0..3 {
            let (first, last) = (sub_of(&queue, 1), sub_of(&queue, 1));
            drop(first);
            let again = sub_of(&queue, 1);
            assert_eq!(queue.slots(), 3);
            drop((again, last));
            assert_eq!(queue.slots(), 1);
        }
        kept.try_put(1).unwrap();
        assert_eq!(queue.try_get(), Ok(1));
    });
}

#[test]
#[cfg(not(loom))] // what a child forgets is a leak to loom
fn a_forked_child_starts_with_the_same_sub_queues_empty() {
    model(|| {
        let queue = queue();
        let (sub, full) = (sub_of(&queue, 2), sub_of(&queue, 1));
        sub.disable("paused".into());
        sub.try_put(1).unwrap();
        full.try_put(2).unwrap();
        let mut holder = queue.getter();
        assert_eq!((holder.gather(3, 3), holder.held()), (Gathered::TooFew, 1));
        let (mut getter, mut putter) = (queue.getter(), sub.putter());
        enter(&mut holder);
        enter(&mut getter);
        sub.try_put(3).unwrap();
        enter(&mut putter);

        queue.shared().restart_in_child();
        let (_, total, blocked) = queue.stats(&[]);
        assert_eq!((total, blocked), (super::Stats::default(), 0));
        assert_eq!((sub.room(), sub.disabled_by(), queue.len()), (2, vec!["paused".to_owned()], 0));
        drop((holder, getter, putter)); // frames of the parent that end in the child
        sub.enable(None);
        sub.try_put(4).unwrap();
        full.try_put(5).unwrap();
        assert_eq!([queue.try_get(), queue.try_get()], [Ok(4), Ok(5)]);
        assert_eq!((sub.stats().counters.put, sub.stats().oldest_age), (1, None));
    });
}

#[test]
#[cfg(not(any(loom, drainq_shuttle)))]
fn groups_are_served_by_priority_in_whatever_order_they_come_and_go() {
    let sequences: [fn(i64) -> i64; 5] =
        [|n| n, |n| -n, |n| n * 7919 % 1009, |n| if n % 2 == 0 { n } else { -n }, |n| (1 << 40) >> (n % 40)];
    for priority_of in sequences {
        let mut kept: Vec<(i64, i64)> = Vec::new();
        let mut selection = super::round_robin_selection::Selection::new(Order::Priority);
        for n in 0..400 {
            let slot = usize::try_from(n).unwrap();
            selection.insert(slot, priority_of(n), 1);
            selection.set_ready(slot, true);
            kept.push((priority_of(n), n));
            if n % 3 == 0 {
                let (_, gone) = kept.remove(usize::try_from(n * 31 % 97).unwrap() % kept.len());
                selection.remove(usize::try_from(gone).unwrap());
            }
        }
        kept.sort_unstable();
        let served = selection.in_turn_order().into_iter().flatten().map(|slot| i64::try_from(slot).unwrap());
        assert_eq!(served.collect::<Vec<_>>(), kept.iter().map(|(_, n)| *n).collect::<Vec<_>>());
        for (_, n) in kept {
            let slot = usize::try_from(n).unwrap();
            assert_eq!(selection.take_turn(), Some(slot));
            selection.remove(slot);
        }
        assert_eq!(selection.next(), None);
    }
}
