//! The ring against a bounded deque, its memory, and real threads.

use super::*;
use crate::sync::{Arc, thread};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::num::NonZeroUsize;

fn item(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).expect("test items start at 1")
}

fn take(ring: &Ring<NonZeroUsize>, max: usize) -> Vec<usize> {
    let mut out = Vec::new();
    // SAFETY: each test takes from one thread only (invariant 6).
    unsafe { ring.take(max, &mut out) };
    out.into_iter().map(usize::from).collect()
}

#[derive(Clone, Debug)]
enum Op {
    Push,
    PushSerialised,
    PushFast(usize),
    OpenFastPath(u64),
    PushMany(usize),
    Take(usize),
    Close,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => Just(Op::Push),
        8 => Just(Op::PushSerialised),
        8 => (0_usize..300).prop_map(Op::PushFast),
        8 => (1_u64..5).prop_map(Op::OpenFastPath),
        4 => (0_usize..700).prop_map(Op::PushMany),
        6 => (0_usize..600).prop_map(Op::Take),
        1 => Just(Op::Close),
    ]
}

proptest! {
    #[test]
    fn agrees_with_a_bounded_deque(capacity in 1_usize..900, ops in prop::collection::vec(op(), 0..60)) {
        let ring = Ring::new(capacity);
        let (mut model, mut closed, mut next) = (VecDeque::new(), false, 1);
        for op in ops {
            let room = if closed { 0 } else { capacity - model.len() };
            let pushed = match op {
                Op::Push => usize::from(ring.push(item(next)).is_ok()),
                // SAFETY: one thread (the lock is not needed).
                Op::PushSerialised => usize::from(unsafe { ring.push_serialised(item(next)) }.is_ok()),
                Op::OpenFastPath(share) => {
                    // SAFETY: one thread (the lock is not needed).
                    let open = unsafe { ring.open_fast_path(share, u64::MAX) } > 0;
                    prop_assert!(!open || capacity > model.len() && !closed);
                    continue;
                }
                Op::PushFast(n) => {
                    let mut items = (next..next + n).map(item);
                    let pushed = if n == 1 {
                        // SAFETY: one thread (the lock is not needed).
                        usize::from(unsafe { ring.push_fast(|| item(next)) })
                    } else {
                        // SAFETY: as above.
                        unsafe { ring.push_fast_while(|| items.next()) }
                    };
                    prop_assert!(pushed <= n.min(room));
                    model.extend(next..next + pushed);
                    next += pushed;
                    prop_assert_eq!(ring.len(), model.len());
                    continue;
                }
                Op::PushMany(n) => {
                    let mut items = (next..next + n).map(item).collect::<Vec<_>>().into_iter();
                    if n % 2 == 0 {
                        ring.push_many(&mut items, usize::MAX).0
                    } else {
                        // SAFETY: one thread (the lock is not needed).
                        unsafe { ring.push_many_serialised(&mut items, usize::MAX) }.0
                    }
                }
                Op::Take(n) => {
                    let expected: Vec<usize> = model.drain(..n.min(model.len())).collect();
                    prop_assert_eq!(take(&ring, n), expected);
                    continue;
                }
                Op::Close => {
                    ring.close();
                    closed = true;
                    continue;
                }
            };
            let wanted = if let Op::PushMany(n) = op { n } else { 1 };
            prop_assert_eq!(pushed, wanted.min(room));
            model.extend(next..next + pushed);
            next += wanted;
            prop_assert_eq!(ring.len(), model.len());
            let mut seen = Vec::new();
            // SAFETY: no other thread takes.
            unsafe { ring.for_each(ring.accepted(), |item| seen.push(usize::from(*item))) };
            prop_assert!(model.iter().copied().eq(seen), "a look shows what is queued");
        }
    }
}

#[test]
fn memory_follows_what_is_queued() {
    let ring = Ring::new(20_000);
    let empty = ring.allocated_bytes();
    assert!(empty < 4_096, "{empty} bytes for an empty ring");
    for n in 1..=20_000 {
        assert!(ring.push(item(n)).is_ok());
    }
    assert!(ring.push(item(1)).is_err(), "the capacity is exact");
    assert!(ring.allocated_bytes() > 160_000);
    assert_eq!(take(&ring, 20_000).len(), 20_000);
    assert!(ring.allocated_bytes() < 8_192, "{} bytes when empty again", ring.allocated_bytes());
}

#[test]
fn a_large_ring_that_holds_little_costs_little() {
    let resident = || -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux says what is resident");
        let pages: usize = pages.split(' ').nth(1).and_then(|text| text.parse().ok()).expect("a number of pages");
        pages * 4_096
    };
    if !cfg!(target_os = "linux") {
        return;
    }
    let before = resident();
    let rings: Vec<_> = (0..20).map(|_| Ring::new(MAX_CAPACITY)).collect();
    for ring in &rings {
        assert!((1..=1_000).all(|n| ring.push(item(n)).is_ok()));
        assert_eq!(take(ring, 1_000).len(), 1_000);
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 100 << 20, "{grown} bytes for 20 rings, whose directories would be 640 MB");
}

#[test]
#[should_panic(expected = "room for 1 to 1073741824 items, not 1073741825")]
fn a_ring_is_no_larger_than_its_limit() {
    drop(Ring::<NonZeroUsize>::new(MAX_CAPACITY + 1));
}

#[test]
fn items_left_in_a_ring_are_dropped_with_it() {
    let shared = crate::sync::plain::Arc::new(7_u64);
    let ring = Ring::new(1_000);
    for _ in 0..600 {
        assert!(ring.push(shared.clone()).is_ok());
    }
    assert_eq!(crate::sync::plain::Arc::strong_count(&shared), 601);
    drop(ring);
    assert_eq!(crate::sync::plain::Arc::strong_count(&shared), 1);
}

#[test]
fn real_threads_lose_nothing() {
    let ring = Arc::new(Ring::new(300));
    let producers: Vec<_> = (0..3_usize)
        .map(|p| {
            let ring = ring.clone();
            thread::spawn(move || {
                for n in 0..20_000 {
                    while ring.push(item(n * 3 + p + 1)).is_err() {
                        thread::yield_now();
                    }
                }
            })
        })
        .collect();
    let mut next = [0_usize; 3];
    while next.iter().sum::<usize>() < 60_000 {
        for n in take(&ring, 64) {
            assert_eq!((n - 1) / 3, next[(n - 1) % 3], "in the producer's order");
            next[(n - 1) % 3] += 1;
        }
    }
    producers.into_iter().for_each(|producer| producer.join().unwrap());
}

/// Items are pushed one by one, in bulk, and on the fast path. Each way meets the end of the memory at a segment's end.
#[test]
fn an_item_without_memory_is_refused_and_nothing_else_is_changed() {
    use super::segments::tests::NO_MEMORY;
    let (ring, numbers) = (Ring::new(10 * SEGMENT), 1..=3 * SEGMENT + 7);
    let mut next = numbers.clone().map(item);
    let mut push = |count| next.by_ref().take(count).collect::<Vec<_>>().into_iter();
    // SAFETY: one thread (the lock is not needed), here and below.
    let push_many = |items: &mut _| unsafe { ring.push_many_serialised(items, usize::MAX) };
    assert_eq!(push_many(&mut push(SEGMENT - 1)), (SEGMENT - 1, None));

    NO_MEMORY.set(true);
    let mut rest = push(2 * SEGMENT + 8);
    assert_eq!(push_many(&mut rest), (1, Some(Refusal::NoMemory)), "the last slot of the segment");
    assert_eq!(push_many(&mut rest), (0, Some(Refusal::NoMemory)));
    // SAFETY: as above.
    assert_eq!(unsafe { ring.open_fast_path(1, u64::MAX) }, 0);
    // SAFETY: as above.
    assert_eq!(unsafe { ring.push_serialised(item(1)) }, Err((item(1), Refusal::NoMemory)));
    assert_eq!((ring.accepted(), ring.len()), (SEGMENT as u64, SEGMENT));

    NO_MEMORY.set(false);
    assert_eq!(push_many(&mut rest), (2 * SEGMENT + 7, None));
    assert_eq!(take(&ring, usize::MAX >> 2), numbers.collect::<Vec<_>>());
}
