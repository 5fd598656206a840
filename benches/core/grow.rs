//! The cost of size: two thousand types compared with a hundred, and partitions that are nearly empty.

use crate::engine::{Drainq, Engine, Shape, Sink, put_load};
use crate::item::{Item, uniform};
use crate::machine::allocated_bytes;
use crate::protocol::{Contestant, Figure, Goal, Report, part, rounds};
use crossbeam::queue::ArrayQueue;
use drainq_core::batch::{BatchQueue, Grouping, PartitionPolicy, Settings};
use std::time::Instant;

const FEW: Shape = Shape { threads: 8, types: 100, capacity: 10_000 };
const MANY: Shape = Shape { types: 2_000, ..FEW };
const FEW_TYPES: &str = "drainq, 100 types on 100 partitions";
const MANY_TYPES: &str = "drainq, 2,000 types on 1,100 partitions";
/// Types that are registered in a round.
const REGISTERED: u32 = 2_000;
const PARTITIONS: usize = 450;
const PLACES: usize = 20_000;
const QUEUED: usize = 100;
const MIB: f64 = (1 << 20) as f64;

pub fn run(report: &mut Report) {
    if report.wants("grow", "many types, burst time cpu") {
        let items = report.options().items(2_000_000);
        many_types(report, items, ["grow: many types, burst, time", "grow: many types, burst, cpu"]);
    }
    if report.wants("grow", "many types, long time cpu") {
        let items = report.options().items(20_000_000);
        many_types(report, items, ["grow: many types, long, time", "grow: many types, long, cpu"]);
    }
    if report.wants("grow", "registration") {
        registration(report);
    }
    if report.wants("grow", "memory") {
        memory(report);
    }
}

fn many_types(report: &mut Report, items: usize, [time, cpu]: [&'static str; 2]) {
    let load = move |shape: Shape| {
        let (sink, end) = Sink::new(items, 0, 1);
        let engine = Drainq::start(shape, &sink);
        let expected = if shape.types == FEW.types { 100 } else { 1_100 };
        assert_eq!(engine.0.queue().partition_count(), expected);
        put_load(&engine, &end, items, 16, |producer| uniform(shape.types, producer))
    };
    let mut contestants: Vec<Contestant<'_, _>> =
        vec![(FEW_TYPES, Box::new(move || load(FEW))), (MANY_TYPES, Box::new(move || load(MANY)))];
    let costs = rounds(report.options().rounds, &mut contestants);
    let goals = [Goal::times(MANY_TYPES, FEW_TYPES, 1.5, 1.2)];
    let note = "16 producers, 8 drain threads, types in turn; 2 M items in a burst, 20 M in a long run";
    report.add(Figure::new(time, "ns/item", part(&costs, |cost| cost.wall), &goals, note));
    report.add(Figure::new(cpu, "cpu-ns/item", part(&costs, |cost| cost.cpu), &goals, note));
}

/// Types that are registered one after the other on a queue of a fixed number of partitions.
fn registration(report: &mut Report) {
    let cost = |partitions: usize| {
        let mut settings = Settings::new(1);
        settings.partitions = PartitionPolicy::Fixed(partitions);
        let queue: BatchQueue<Item> = BatchQueue::new("registration", settings, Grouping::ByKey);
        let started = Instant::now();
        for _ in 0..REGISTERED {
            queue.add_type(1.0);
        }
        started.elapsed().as_nanos() as f64 / 1e3 / f64::from(REGISTERED)
    };
    let grown = || {
        let (sink, _end) = Sink::new(usize::MAX, 0, 1);
        let engine = Drainq::start(FEW, &sink);
        let started = Instant::now();
        for number in 0..MANY.types {
            let sink = sink.clone();
            let key = engine.0.add_handler(1.0, move |batch: &mut Vec<Item>| sink.handle(batch));
            engine.produce(Item::new(key, number));
        }
        started.elapsed().as_nanos() as f64 / 1e3 / MANY.types as f64
    };
    let mut contestants: Vec<Contestant<'_>> = vec![
        ("drainq, 100 partitions", Box::new(move || cost(100))),
        ("drainq, 10,000 partitions", Box::new(move || cost(10_000))),
        ("drainq, partitions grow from 100 to 1,150", Box::new(grown)),
    ];
    let costs = rounds(report.options().rounds, &mut contestants);
    let goals =
        [Goal::at_most("drainq, 100 partitions", 2.0, 1.0), Goal::at_most("drainq, 10,000 partitions", 4.0, 2.0)];
    let note = "2,000 types one by one; where partitions grow, the queue runs and gets a handler and an item for each";
    report.add(Figure::new("grow: registration", "us/type", costs, &goals, note));
}

fn memory(report: &mut Report) {
    let bytes = || allocated_bytes().map_or(f64::NAN, |bytes| bytes / MIB);
    let drainq = || {
        let before = bytes();
        let mut settings = Settings::new(4);
        settings.partitions = PartitionPolicy::Fixed(PARTITIONS);
        settings.buffer_size = PLACES;
        let queue = BatchQueue::new("memory", settings, Grouping::ByKey);
        for number in 0..QUEUED {
            let key = queue.add_type(1.0);
            assert!(queue.try_produce(Item::new(key, number)).is_ok(), "there is room");
        }
        assert_eq!(queue.snapshot().queued, QUEUED as u64);
        bytes() - before
    };
    let array_queue = || {
        let before = bytes();
        let queues: Vec<_> = (0..PARTITIONS).map(|_| ArrayQueue::new(PLACES)).collect();
        for (number, queue) in queues.iter().take(QUEUED).enumerate() {
            assert!(queue.push(Item::new(0, number)).is_ok(), "there is room");
        }
        bytes() - before
    };
    let mut contestants: Vec<Contestant<'_>> =
        vec![("drainq", Box::new(drainq)), ("ArrayQueue partitions", Box::new(array_queue))];
    let costs = rounds(3, &mut contestants);
    let note = "450 partitions of 20,000 places, an item in each of 100";
    report.add(Figure::new("grow: memory", "MiB", costs, &[Goal::at_most("drainq", 4.0, 1.0)], note));
}
