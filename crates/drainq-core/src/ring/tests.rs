//! Tests of the ring: it agrees with a bounded deque, its memory follows its items, and real threads lose no item.

use super::*;
use crate::sync::{Arc, plain, thread};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::num::NonZeroUsize;

fn item<T: Numbered>(n: usize) -> T {
    NonZeroUsize::new(n).expect("test items start at 1").into()
}

/// An inline item of the largest size, all of whose words are its number.
#[derive(Clone, Copy)]
struct Wide([usize; Self::WORDS]);

impl Wide {
    const WORDS: usize = MAX_INLINE / size_of::<usize>();
}

impl RingItem for Wide {
    type Slot = Inline<Self>;
}

impl From<NonZeroUsize> for Wide {
    fn from(number: NonZeroUsize) -> Self {
        Self([number.get(); Self::WORDS])
    }
}

impl From<Wide> for usize {
    fn from(Wide(words): Wide) -> Self {
        assert!(words.iter().all(|word| *word == words[0]), "an item is whole");
        words[0]
    }
}

/// An item that is its number, in either kind of slot.
trait Numbered: RingItem + Copy + From<NonZeroUsize> + Into<usize> {}

impl<T: RingItem + Copy + From<NonZeroUsize> + Into<usize>> Numbered for T {}

fn take<T: Numbered>(ring: &Ring<T>, max: usize) -> Vec<usize> {
    let mut out = Vec::new();
    // SAFETY: each test takes from one thread only (invariant 6).
    unsafe { ring.take(max, &mut out) };
    out.into_iter().map(T::into).collect()
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

fn agrees_with_a_bounded_deque_of<T: Numbered>(capacity: usize, ops: &[Op]) -> Result<(), TestCaseError> {
    let ring = Ring::<T>::new(capacity);
    let (mut model, mut closed, mut next) = (VecDeque::new(), false, 1);
    for op in ops.iter().cloned() {
        let room = if closed { 0 } else { capacity - model.len() };
        let pushed = match op {
            Op::Push => usize::from(ring.push(item::<T>(next)).is_ok()),
            // SAFETY: one thread (the lock is not needed).
            Op::PushSerialised => usize::from(unsafe { ring.push_serialised(item::<T>(next)) }.is_ok()),
            Op::OpenFastPath(share) => {
                // SAFETY: one thread (the lock is not needed).
                let open = unsafe { ring.open_fast_path(share, u64::MAX) } > 0;
                prop_assert!(!open || capacity > model.len() && !closed);
                continue;
            }
            Op::PushFast(n) => {
                let mut items = (next..next + n).map(item::<T>);
                let pushed = if n == 1 {
                    // SAFETY: one thread (the lock is not needed).
                    usize::from(unsafe { ring.push_fast(|| item::<T>(next)) })
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
                let mut items = (next..next + n).map(item::<T>).collect::<Vec<_>>().into_iter();
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
        unsafe { ring.for_each(ring.accepted(), |item| seen.push((*item).into())) };
        prop_assert!(model.iter().copied().eq(seen), "a look shows what is queued");
    }
    Ok(())
}

proptest! {
    #[test]
    fn agrees_with_a_bounded_deque(capacity in 1_usize..900, ops in prop::collection::vec(op(), 0..60)) {
        agrees_with_a_bounded_deque_of::<NonZeroUsize>(capacity, &ops)?;
        agrees_with_a_bounded_deque_of::<Wide>(capacity, &ops)?;
    }
}

#[test]
fn memory_follows_what_is_queued() {
    let ring = Ring::<NonZeroUsize>::new(20_000);
    let empty = ring.allocated_bytes();
    assert!(empty < 4_096, "{empty} bytes for an empty ring");
    for n in 1..=20_000 {
        assert!(ring.push(item(n)).is_ok());
    }
    assert!(ring.push(item(1)).is_err(), "the capacity is exact");
    let full = ring.allocated_bytes();
    assert!(full > 160_000);
    assert_eq!(take(&ring, 5_000).len(), 5_000);
    assert_eq!(ring.allocated_bytes(), full, "the used segments are kept for the next items");
    assert_eq!(take(&ring, 10_000).len(), 10_000);
    assert!(ring.allocated_bytes() < 90_000, "{} bytes for 40,000 of items", ring.allocated_bytes());
    assert_eq!(take(&ring, 20_000).len(), 5_000);
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
    let rings: Vec<_> = (0..20).map(|_| Ring::<NonZeroUsize>::new(MAX_CAPACITY)).collect();
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
    /// Owns a reference, in its slot.
    struct Holder {
        _shared: plain::Arc<u64>,
    }

    impl RingItem for Holder {
        type Slot = Inline<Self>;
    }

    fn check<T: RingItem>(make: fn(plain::Arc<u64>) -> T) {
        let shared = plain::Arc::new(7);
        let ring = Ring::new(1_000);
        assert!((0..600).all(|_| ring.push(make(shared.clone())).is_ok()));
        let mut taken = Vec::new();
        // SAFETY: only this thread takes.
        assert_eq!(unsafe { ring.take(10, &mut taken) }, 10);
        assert_eq!(plain::Arc::strong_count(&shared), 601);
        drop(taken);
        assert_eq!(plain::Arc::strong_count(&shared), 591, "an item is taken once");
        drop(ring);
        assert_eq!(plain::Arc::strong_count(&shared), 1);
    }

    check(|shared| shared);
    check(|shared| Holder { _shared: shared });
}

#[test]
fn real_threads_lose_nothing() {
    real_threads_lose_nothing_of::<NonZeroUsize>();
    real_threads_lose_nothing_of::<Wide>();
}

fn real_threads_lose_nothing_of<T: Numbered>() {
    let ring = Arc::new(Ring::<T>::new(300));
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

/// Items are pushed one by one, in bulk, and on the fast path. Each way runs out of memory at the end of a segment.
#[test]
fn an_item_without_memory_is_refused_and_nothing_else_is_changed() {
    use super::segments::tests::NO_MEMORY;
    let (ring, numbers) = (Ring::new(10 * SEGMENT), 1..=3 * SEGMENT + 7);
    let mut next = numbers.clone().map(item::<NonZeroUsize>);
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
