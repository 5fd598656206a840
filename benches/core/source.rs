//! The benchmark of the source design, in its own shape: 500 types in turn, 32 producers, 8 drain threads, 50,000
//! places in each of 16 or of 350 partitions, with both strategies.
//!
//! A run has a length, not a number of items: producers offer as fast as they can until it is over. A cost is per item
//! that was accepted. What a producer that does not wait for room could not place is dropped, and counted.
//!
//! Items are words (a key and a number in 8 bytes), structs of 32 bytes inline in the ring, or boxes (an allocation each,
//! as most programs would have it). What making and freeing the boxes costs by itself is a contestant too, so that the
//! queue is not blamed for the allocator.
//!
//! Source: `BatchQueueBenchmark` in SkyWalking's `library-batch-queue`.

use crate::item::Item;
use crate::machine::process_cpu_nanos;
use crate::protocol::{Contestant, Costs, Figure, Goal, Options, Report, part, rounds};
use crate::rivals::{Buffer, MutexSwap};
use drainq_core::batch::running::Running;
use drainq_core::batch::{BatchQueue, BufferStrategy, Grouping, Key, Keyed, PartitionPolicy, Settings};
use drainq_core::ring::{Inline, Refusal, RingItem};
use drainq_core::sync::CachePadded;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const TYPES: Key = 500;
const PRODUCERS: u32 = 32;
const DRAIN_THREADS: usize = 8;
const CAPACITY: usize = 50_000;
/// A box, as the queue gets it: what is measured is its allocation.
type Allocated = Box<Boxed>;

/// Items that a producer offers between two looks at the clock.
const BURST: usize = 100;

/// What goes through the queue.
trait Offered: RingItem + Keyed + Send + 'static {
    fn make(key: Key, number: usize) -> Self;
    fn value(&self) -> usize;
}

impl Offered for Item {
    #[inline]
    fn make(key: Key, number: usize) -> Self {
        Self::new(key, number & 0xFFFF_FFFF)
    }

    #[inline]
    fn value(&self) -> usize {
        self.number()
    }
}

/// An item that has to be allocated.
struct Boxed {
    key: Key,
    number: usize,
}

impl Keyed for Box<Boxed> {
    #[inline]
    fn key(&self) -> Key {
        self.key
    }
}

impl Offered for Box<Boxed> {
    #[inline]
    fn make(key: Key, number: usize) -> Self {
        Box::new(Boxed { key, number })
    }

    #[inline]
    fn value(&self) -> usize {
        self.number
    }
}

/// A plain struct of 32 bytes.
struct Plain {
    key: Key,
    number: usize,
    rest: [u64; 2],
}

impl RingItem for Plain {
    type Slot = Inline<Self>;
}

impl Keyed for Plain {
    #[inline]
    fn key(&self) -> Key {
        self.key
    }
}

impl Offered for Plain {
    #[inline]
    fn make(key: Key, number: usize) -> Self {
        Self { key, number, rest: [number as u64; 2] }
    }

    #[inline]
    fn value(&self) -> usize {
        self.rest.iter().fold(self.number, |sum, word| sum.wrapping_add(*word as usize))
    }
}

/// What one run was like.
#[derive(Clone, Copy)]
struct Run {
    /// Nanoseconds per accepted item.
    wall: f64,
    /// Nanoseconds of processor time per accepted item.
    cpu: f64,
    /// Items that were not accepted, in percent of those that were offered.
    dropped: f64,
}

/// Lets the producers offer for a while, with `offer` telling whether an item was accepted; ends when `handled` items
/// are as many as accepted ones.
fn measure(length: Duration, handled: &AtomicU64, offer: impl Fn(Key, usize) -> bool + Sync) -> Run {
    let (started, cpu) = (Instant::now(), process_cpu_nanos());
    let offer = &offer;
    let produce = move |first: Key| {
        let (mut offered, mut accepted) = (0_usize, 0_usize);
        while started.elapsed() < length {
            for _ in 0..BURST {
                let key = (first as usize + offered) % TYPES as usize;
                accepted += usize::from(offer(key as Key, offered));
                offered += 1;
            }
        }
        (offered, accepted)
    };
    let (offered, accepted) = std::thread::scope(|scope| {
        let producers: Vec<_> = (0..PRODUCERS).map(|first| scope.spawn(move || produce(first as Key))).collect();
        let counts = producers.into_iter().map(|producer| producer.join().expect("a producer does not panic"));
        counts.fold((0, 0), |sum, (offered, accepted)| (sum.0 + offered, sum.1 + accepted))
    });
    while handled.load(Ordering::Acquire) < accepted as u64 {
        std::thread::sleep(Duration::from_micros(200));
    }
    let items = accepted as f64;
    Run {
        wall: started.elapsed().as_nanos() as f64 / items,
        cpu: (process_cpu_nanos() - cpu) / items,
        dropped: 100.0 * (offered - accepted) as f64 / offered as f64,
    }
}

fn drainq<T: Offered>(length: Duration, partitions: usize, strategy: BufferStrategy) -> Run {
    let mut settings = Settings::new(DRAIN_THREADS);
    settings.partitions = PartitionPolicy::Fixed(partitions);
    settings.buffer_size = CAPACITY;
    settings.strategy = strategy;
    let running = Running::<T>::start(BatchQueue::new("bench", settings, Grouping::ByKey));
    let handled = Arc::new(AtomicU64::new(0));
    for _ in 0..TYPES {
        let handled = handled.clone();
        running.add_handler(1.0, move |batch: &mut Vec<T>| {
            black_box(batch.iter().fold(0, |sum: usize, item| sum.wrapping_add(item.value())));
            handled.fetch_add(batch.len() as u64, Ordering::Release);
        });
    }
    let queue = running.queue().clone();
    measure(length, &handled, |key, number| match queue.try_produce(T::make(key, number)) {
        Ok(()) => true,
        Err((item, refusal)) => {
            assert_eq!(refusal, Refusal::Full, "nobody closes the queue under load");
            strategy == BufferStrategy::Blocking && wait_and_produce(&queue, item)
        }
    })
}

#[cold]
fn wait_and_produce<T: Offered>(queue: &BatchQueue<T>, mut item: T) -> bool {
    let partition = queue.partition_of(item.key());
    let mut waiter = queue.wait_for_room(partition);
    while let Err((back, _)) = queue.produce_within(partition, item, &mut waiter, Duration::from_secs(1)) {
        item = back;
    }
    waiter.served();
    true
}

/// The rival: a vector under a lock for each partition, swapped out whole. Its threads sleep a millisecond when they
/// find nothing, its producers yield while there is no room.
fn mutex_swap(length: Duration, partitions: usize) -> Run {
    let new = |_| CachePadded::new(<MutexSwap as Buffer>::with_capacity(CAPACITY));
    let buffers: Vec<_> = (0..partitions).map(new).collect();
    let (handled, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for me in 0..DRAIN_THREADS {
            let (buffers, handled, ended) = (&buffers, &handled, &ended);
            scope.spawn(move || swap_and_group(buffers, me, handled, ended));
        }
        let run = measure(length, &handled, |key, number| {
            let item = Item::make(key, number);
            while !buffers[key as usize % partitions].push(item) {
                std::thread::yield_now();
            }
            true
        });
        ended.store(true, Ordering::Release);
        run
    })
}

fn swap_and_group(buffers: &[CachePadded<MutexSwap>], me: usize, handled: &AtomicU64, ended: &AtomicBool) {
    let mut list = Vec::new();
    let mut groups: Vec<Vec<Item>> = vec![Vec::new(); TYPES as usize];
    while !ended.load(Ordering::Acquire) {
        buffers.iter().skip(me).step_by(DRAIN_THREADS).for_each(|buffer| buffer.take(CAPACITY, &mut list));
        if list.is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        for item in list.drain(..) {
            groups[item.key() as usize].push(item);
        }
        for group in groups.iter_mut().filter(|group| !group.is_empty()) {
            black_box(group.iter().fold(0, |sum: usize, item| sum.wrapping_add(item.value())));
            handled.fetch_add(group.len() as u64, Ordering::Release);
            group.clear();
        }
    }
}

/// What the allocator takes for as many boxes: each thread makes them, and frees those that another has made. Threads
/// swap lists of boxes, as many altogether as the partitions of a full queue hold.
fn boxes_alone(length: Duration, partitions: usize) -> Run {
    let handled = AtomicU64::new(u64::MAX);
    let list_size = partitions.min(16) * CAPACITY / PRODUCERS as usize;
    let lists: Vec<Mutex<Vec<Allocated>>> = (0..PRODUCERS).map(|_| Mutex::default()).collect();
    let next = AtomicUsize::new(0);
    thread_local! {
        static MINE: RefCell<Vec<Allocated>> = const { RefCell::new(Vec::new()) };
    }
    measure(length, &handled, |key, number| {
        MINE.with_borrow_mut(|mine| {
            mine.push(Box::make(key, number));
            if mine.len() >= list_size {
                let at = next.fetch_add(1, Ordering::Relaxed) % lists.len();
                std::mem::swap(mine, &mut lists[at].lock());
                black_box(mine.drain(..).fold(0, |sum: usize, item| sum.wrapping_add(item.value())));
            }
        });
        true
    })
}

const WAITS: &str = "drainq, words, waits for room";
const DROPS: &str = "drainq, words, drops";
const INLINE_WAIT: &str = "drainq, 32 bytes inline, waits for room";
const INLINE_DROP: &str = "drainq, 32 bytes inline, drops";
const BOXES_WAIT: &str = "drainq, boxes, waits for room";
const BOXES_DROP: &str = "drainq, boxes, drops";
const SWAP: &str = "mutex-swap partitions, words, waits for room";
const BOXES_LIMIT: &str = "(twice drainq's words, and the boxes without a queue)";
const BOXES_ALONE: &str = "(boxes made, and freed by another thread, no queue)";

fn costs(options: &Options, partitions: usize) -> Costs<Run> {
    let length = Duration::from_millis(if options.quick { 150 } else { 1_000 });
    let mut contestants: Vec<Contestant<'_, Run>> = vec![
        (WAITS, Box::new(move || drainq::<Item>(length, partitions, BufferStrategy::Blocking))),
        (DROPS, Box::new(move || drainq::<Item>(length, partitions, BufferStrategy::IfPossible))),
        (INLINE_WAIT, Box::new(move || drainq::<Plain>(length, partitions, BufferStrategy::Blocking))),
        (INLINE_DROP, Box::new(move || drainq::<Plain>(length, partitions, BufferStrategy::IfPossible))),
        (BOXES_WAIT, Box::new(move || drainq::<Box<Boxed>>(length, partitions, BufferStrategy::Blocking))),
        (BOXES_DROP, Box::new(move || drainq::<Box<Boxed>>(length, partitions, BufferStrategy::IfPossible))),
        (SWAP, Box::new(move || mutex_swap(length, partitions))),
        (BOXES_ALONE, Box::new(move || boxes_alone(length, partitions))),
    ];
    rounds(options.rounds, &mut contestants)
}

/// The names of the three figures of one number of partitions.
struct Names {
    partitions: usize,
    wall: &'static str,
    cpu: &'static str,
    dropped: &'static str,
}

pub fn run(report: &mut Report) {
    for names in [
        Names {
            partitions: 16,
            wall: "source, 16 partitions: throughput",
            cpu: "source, 16 partitions: cpu",
            dropped: "source, 16 partitions: dropped",
        },
        Names {
            partitions: 350,
            wall: "source, 350 partitions: throughput",
            cpu: "source, 350 partitions: cpu",
            dropped: "source, 350 partitions: dropped",
        },
    ] {
        if report.wants("source", "throughput, cpu, dropped") || report.wants("", names.dropped) {
            figures(report, &names);
        }
    }
}

fn figures(report: &mut Report, names: &Names) {
    let costs = costs(report.options(), names.partitions);
    let note = "32 producers, 500 types in turn, 8 drain threads, 50,000 places a partition; per accepted item";
    let inline_goal = || Goal::times(INLINE_WAIT, WAITS, 1.5, 1.2);
    let goals = [Goal::faster(DROPS, WAITS, 1.0, 1.1), inline_goal()];
    report.add(Figure::new(names.wall, "ns/item", part(&costs, |run| run.wall), &goals, note));
    let goals = [Goal::times(WAITS, SWAP, 0.8, 0.5), inline_goal(), Goal::times(BOXES_WAIT, BOXES_LIMIT, 1.0, 0.8)];
    let note = "processor time of the process per accepted item, producers and handlers included";
    let mut cpu = part(&costs, |run| run.cpu);
    let limit = values(&cpu, WAITS).iter().zip(values(&cpu, BOXES_ALONE)).map(|(words, boxes)| 2.0 * words + boxes);
    cpu.push((BOXES_LIMIT, limit.collect()));
    report.add(Figure::new(names.cpu, "cpu-ns/item", cpu, &goals, note));
    let goals = [Goal::at_most(DROPS, 0.5, 0.1)];
    let drops: Costs =
        part(&costs, |run| run.dropped).into_iter().filter(|(name, _)| name.ends_with("drops")).collect();
    let note = "of all that was offered, as fast as 32 threads can; who waits for room drops nothing";
    report.add(Figure::new(names.dropped, "%", drops, &goals, note));
}

/// What this contestant cost, round by round.
fn values<'a>(costs: &'a Costs, name: &str) -> &'a [f64] {
    &costs.iter().find(|(contestant, _)| *contestant == name).expect("the contestant took part").1
}
