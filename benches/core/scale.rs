//! Throughput by the number of cores in use: as many drain threads as producers, 100 types in turn, 1,000 multiply-adds
//! a call and 20 an item.

use crate::engine::{Cost, Drainq, Engine, Partitioned, Shape, Sink, put_load};
use crate::item::{Item, uniform};
use crate::machine::cores;
use crate::protocol::{Contestant, Figure, Report, part, rounds};
use crate::rivals::{Buffer, Flume, Kanal, MutexSwap};
use crossbeam::queue::ArrayQueue;
use std::sync::Arc;

/// Threads on each side, and the names of their figures.
const SIDES: [(usize, &str, &str); 5] = [
    (1, "scale: throughput, 1 producer and drain thread", "scale: cpu, 1 producer and drain thread"),
    (2, "scale: throughput, 2 producers and drain threads", "scale: cpu, 2 producers and drain threads"),
    (4, "scale: throughput, 4 producers and drain threads", "scale: cpu, 4 producers and drain threads"),
    (8, "scale: throughput, 8 producers and drain threads", "scale: cpu, 8 producers and drain threads"),
    (16, "scale: throughput, 16 producers and drain threads", "scale: cpu, 16 producers and drain threads"),
];
const TYPES: usize = 100;
/// Multiply-adds of a handler call, and of each item in it: about 1 us and 20 ns.
const PER_BATCH: usize = 1_000;
const PER_ITEM: usize = 20;

fn one_run<E: Engine>(start: impl Fn(&Arc<Sink>) -> E, items: usize, threads: usize) -> Cost {
    let (sink, end) = Sink::new(items, PER_BATCH, PER_ITEM);
    put_load(&start(&sink), &end, items, threads, |producer| uniform(TYPES, producer))
}

fn rival<B: Buffer + Send + Sync + 'static>(items: usize, shape: Shape) -> Cost {
    one_run(|sink| Partitioned::<B>::start(shape, sink), items, shape.threads)
}

pub fn run(report: &mut Report) {
    if !report.wants("scale", "throughput, cpu") {
        return;
    }
    for (threads, throughput, cpu) in SIDES.into_iter().filter(|(threads, ..)| *threads <= cores().max(2)) {
        let shape = Shape { threads, types: TYPES, capacity: 10_000 };
        let items = report.options().items(2_000_000 * threads.min(4));
        let mut contestants: Vec<Contestant<'_, Cost>> = vec![
            ("drainq", Box::new(move || one_run(|sink| Drainq::start(shape, sink), items, threads))),
            ("ArrayQueue partitions", Box::new(move || rival::<ArrayQueue<Item>>(items, shape))),
            ("mutex-swap partitions", Box::new(move || rival::<MutexSwap>(items, shape))),
            ("flume partitions", Box::new(move || rival::<Flume>(items, shape))),
            ("kanal partitions", Box::new(move || rival::<Kanal>(items, shape))),
        ];
        let costs = rounds(report.options().rounds, &mut contestants);
        let note = "100 types in turn, 10,000 places a partition, 1,000 multiply-adds a call and 20 an item";
        report.add(Figure::new(throughput, "ns/item", part(&costs, |cost| cost.wall), &[], note));
        let note = "processor time of the process per item, producers and handlers included";
        report.add(Figure::new(cpu, "cpu-ns/item", part(&costs, |cost| cost.cpu), &[], note));
    }
}
