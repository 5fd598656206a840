//! Throughput under contention: 16 producers, 4 drain threads, 100 types skewed 24/8/4/1, a cost for each handler call.

use crate::engine::{Cost, Drainq, Engine, Partitioned, Shape, Sink, put_load};
use crate::item::{Item, skewed};
use crate::protocol::{Contestant, Figure, Goal, Report, part, rounds};
use crate::rivals::{Buffer, Flume, Kanal, MutexSwap};
use crossbeam::queue::ArrayQueue;
use std::sync::Arc;

const PRODUCERS: usize = 16;
pub const SHAPE: Shape = Shape { threads: 4, types: 100, capacity: 10_000 };
/// Multiply-adds of a handler call, and of each item in it: about 1 us and 1 ns.
const PER_BATCH: usize = 1_000;
const PER_ITEM: usize = 1;

/// Runs one load on a fresh queue.
pub fn one_run<E: Engine>(start: impl Fn(&Arc<Sink>) -> E, items: usize, per_batch: usize, per_item: usize) -> Cost {
    let (sink, end) = Sink::new(items, per_batch, per_item);
    put_load(&start(&sink), &end, items, PRODUCERS, |producer| skewed(SHAPE.types, producer))
}

fn rival<B: Buffer + Send + Sync + 'static>(items: usize) -> Cost {
    one_run(|sink| Partitioned::<B>::start(SHAPE, sink), items, PER_BATCH, PER_ITEM)
}

pub fn run(report: &mut Report) {
    if !report.wants("contend", "throughput, cpu") {
        return;
    }
    let items = report.options().items(20_000_000);
    let mut contestants: Vec<Contestant<'_, Cost>> = vec![
        ("drainq", Box::new(move || one_run(|sink| Drainq::start(SHAPE, sink), items, PER_BATCH, PER_ITEM))),
        ("ArrayQueue partitions", Box::new(move || rival::<ArrayQueue<Item>>(items))),
        ("mutex-swap partitions", Box::new(move || rival::<MutexSwap>(items))),
        ("flume partitions", Box::new(move || rival::<Flume>(items))),
        ("kanal partitions", Box::new(move || rival::<Kanal>(items))),
    ];
    let costs = rounds(report.options().rounds, &mut contestants);
    let goals = [
        Goal::faster("drainq", "ArrayQueue partitions", 1.2, 1.5),
        Goal::faster("drainq", "mutex-swap partitions", 1.2, 1.5),
    ];
    let note =
        "16 producers, 4 drain threads, 100 types 24/8/4/1, 10,000 places a partition, 1,000 multiply-adds a call";
    report.add(Figure::new("contend: throughput", "ns/item", part(&costs, |cost| cost.wall), &goals, note));
    let goals = [Goal::times("drainq", "kanal partitions", 1.0, 0.8)];
    let note = "processor time of the process per item, producers and handlers included";
    report.add(Figure::new("contend: cpu", "cpu-ns/item", part(&costs, |cost| cost.cpu), &goals, note));
}
