//! The cost of single operations on one thread: push, push in bulk, drain.

use crate::item::Item;
use crate::protocol::{Contestant, Figure, Goal, Report, quantile, rounds};
use crate::rivals::{Buffer, Flume, Kanal, MutexSwap, Nexus};
use crossbeam::queue::ArrayQueue;
use drainq_core::batch::{BatchQueue, BufferStrategy, Drainer, Grouping, Key, Outcome, Settings, Step};
use drainq_core::ring::Ring;
use drainq_core::sync::Arc;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Items pushed into a buffer before it is drained, in one batch.
const BATCH: usize = 256;
/// Buffers that are filled, then drained, one after the other: so that one reading of the clock covers many items.
const BUFFERS: usize = 8;
const CAPACITY: usize = 1024;
const BULK: usize = 64;

const ONE_THREAD: &str = "one thread, 256 items in, 256 out; the queue's row has route, counters and wake-up in it";

#[derive(Clone, Copy, PartialEq)]
enum Timed {
    Push,
    Drain,
}

pub fn run(report: &mut Report) {
    let cycles = report.options().items(2_000);
    let count = report.options().rounds;
    if report.wants("op", "push") {
        let mut contestants = singles(Timed::Push, cycles);
        contestants.push(("drainq queue", Box::new(move || queue_cost(Timed::Push, 1, cycles))));
        let goals = [
            Goal::times("drainq ring", "ArrayQueue", 1.1, 1.0),
            Goal::times("drainq ring", "kanal", 1.1, 1.0),
            Goal::times("drainq ring", "nexus-queue", 1.1, 1.0),
        ];
        report.add(Figure::new("op: push", "ns/item", rounds(count, &mut contestants), &goals, ONE_THREAD));
    }
    if report.wants("op", "refusal") {
        let costs = rounds(count, &mut [("drainq", Box::new(move || refusal_cost(cycles)))]);
        let note = "a full queue that nothing drains, and a producer that does not wait for room";
        report.add(Figure::new("op: refusal", "us/call", costs, &[Goal::at_most("drainq", 20.0, 5.0)], note));
    }
    if report.wants("op", "drain") {
        let mut contestants = singles(Timed::Drain, cycles);
        contestants.push(("drainq queue", Box::new(move || queue_cost(Timed::Drain, 1, cycles))));
        let goals =
            [Goal::times("drainq ring", "ArrayQueue", 0.25, 0.12), Goal::times("drainq ring", "kanal", 0.8, 0.58)];
        report.add(Figure::new("op: drain", "ns/item", rounds(count, &mut contestants), &goals, ONE_THREAD));
    }
    if report.wants("op", "produce_many") {
        let mut contestants: Vec<Contestant<'_>> = vec![
            ("drainq ring", Box::new(move || ring_bulk_cost(cycles))),
            ("drainq queue", Box::new(move || queue_cost(Timed::Push, BULK, cycles))),
            ("ArrayQueue push", Box::new(move || cost::<ArrayQueue<Item>>(Timed::Push, cycles))),
        ];
        let goals = [
            Goal::times("drainq ring", "ArrayQueue push", 0.20, 0.08),
            Goal::times("drainq queue", "ArrayQueue push", 0.20, 0.08),
        ];
        let note = "64 items a call, made before the clock starts";
        report.add(Figure::new("op: produce_many(64)", "ns/item", rounds(count, &mut contestants), &goals, note));
    }
}

/// The processor was given away, and the item tried once more: so long holds a full queue its producer up.
fn refusal_cost(calls: usize) -> f64 {
    let mut settings = Settings::new(1);
    settings.buffer_size = CAPACITY;
    settings.strategy = BufferStrategy::IfPossible;
    let queue: BatchQueue<Item> = BatchQueue::new("full", settings, Grouping::ByKey);
    let key = queue.add_type(1.0);
    while queue.try_produce(Item::new(key, 0)).is_ok() {}
    let started = Instant::now();
    for number in 0..calls {
        assert!(black_box(queue.try_produce(Item::new(key, black_box(number)))).is_err(), "the queue is full");
    }
    started.elapsed().as_nanos() as f64 / 1e3 / calls as f64
}

fn singles(timed: Timed, cycles: usize) -> Vec<Contestant<'static>> {
    vec![
        ("drainq ring", Box::new(move || cost::<Ring<Item>>(timed, cycles))),
        ("ArrayQueue", Box::new(move || cost::<ArrayQueue<Item>>(timed, cycles))),
        ("flume", Box::new(move || cost::<Flume>(timed, cycles))),
        ("kanal", Box::new(move || cost::<Kanal>(timed, cycles))),
        ("nexus-queue", Box::new(move || cost::<Nexus>(timed, cycles))),
        ("mutex swap", Box::new(move || cost::<MutexSwap>(timed, cycles))),
    ]
}

/// The median of the cycles, so that one in which the thread lost its core does not count.
fn per_item(cycles: &[Duration]) -> f64 {
    let nanos: Vec<f64> = cycles.iter().map(|cycle| cycle.as_nanos() as f64).collect();
    quantile(&nanos, 0.5) / (BUFFERS * BATCH) as f64
}

/// Looks at every item, as a handler would.
fn look_at(batch: &[Item]) {
    assert_eq!(batch.len(), BATCH);
    black_box(batch.iter().fold(0, |sum: usize, item| sum.wrapping_add(item.number())));
}

fn cost<B: Buffer>(timed: Timed, cycles: usize) -> f64 {
    let buffers: Vec<B> = (0..BUFFERS).map(|_| B::with_capacity(CAPACITY)).collect();
    let mut times = Vec::with_capacity(cycles);
    let mut out = Vec::with_capacity(BATCH);
    for _ in 0..cycles {
        let started = Instant::now();
        for buffer in &buffers {
            for number in 0..BATCH {
                black_box(buffer.push(Item::new(0, black_box(number))));
            }
        }
        let pushed = Instant::now();
        for buffer in &buffers {
            buffer.take(BATCH, &mut out);
            look_at(&out);
            out.clear();
        }
        times.push(if timed == Timed::Push { pushed - started } else { pushed.elapsed() });
    }
    per_item(&times)
}

/// Made before the clock starts: what is to be pushed in one cycle, a call each.
fn bulks(key: Key) -> Vec<std::vec::IntoIter<Item>> {
    let items = |_| (0..BULK).map(|number| Item::new(key, black_box(number))).collect::<Vec<_>>().into_iter();
    (0..BUFFERS * BATCH / BULK).map(items).collect()
}

fn ring_bulk_cost(cycles: usize) -> f64 {
    let rings: Vec<Ring<Item>> = (0..BUFFERS).map(|_| Ring::new(CAPACITY)).collect();
    let mut times = Vec::with_capacity(cycles);
    let mut out = Vec::with_capacity(BATCH);
    for _ in 0..cycles {
        let mut calls = bulks(0);
        let started = Instant::now();
        for (calls, ring) in calls.chunks_mut(BATCH / BULK).zip(&rings) {
            for items in calls {
                assert_eq!(ring.push_many(items, usize::MAX).0, BULK);
            }
        }
        times.push(started.elapsed());
        for ring in &rings {
            Buffer::take(ring, BATCH, &mut out);
            out.clear();
        }
    }
    per_item(&times)
}

/// The same through a whole queue: route, counters, the look for a sleeper; lease, grouping, accounting.
fn queue_cost(timed: Timed, bulk: usize, cycles: usize) -> f64 {
    let mut settings = Settings::new(1);
    settings.buffer_size = CAPACITY;
    let new = |_| Arc::new(BatchQueue::new("op", settings.clone(), Grouping::ByKey));
    let queues: Vec<Arc<BatchQueue<Item>>> = (0..BUFFERS).map(new).collect();
    let keys: Vec<Key> = queues.iter().map(|queue| queue.add_type(1.0)).collect();
    let mut drainers: Vec<_> = queues.iter().map(|queue| Drainer::new(queue.clone(), 0)).collect();
    let mut times = Vec::with_capacity(cycles);
    for _ in 0..cycles {
        let mut calls = if bulk > 1 { bulks(0) } else { Vec::new() };
        let mut calls = calls.iter_mut();
        let started = Instant::now();
        for (queue, key) in queues.iter().zip(&keys) {
            if bulk > 1 {
                for items in calls.by_ref().take(BATCH / BULK) {
                    assert_eq!(queue.try_produce_many(0, items).0, BULK);
                }
            } else {
                for number in 0..BATCH {
                    black_box(queue.try_produce(Item::new(*key, black_box(number))).is_ok());
                }
            }
        }
        let pushed = Instant::now();
        for drainer in &mut drainers {
            let Step::Pass(mut pass) = drainer.next_step(|_| {}) else { panic!("the queue has items") };
            while let Some(batch) = pass.next_batch() {
                look_at(&batch.items);
                let size = batch.size;
                pass.account(batch, &[(Outcome::Handled, size)]);
            }
        }
        times.push(if timed == Timed::Push { pushed - started } else { pushed.elapsed() });
    }
    per_item(&times)
}
