//! The time of a shutdown: of a queue that holds items, and of one with waiting producers.

use crate::engine::{Drainq, Engine, Shape, Sink};
use crate::item::Item;
use crate::protocol::{Contestant, Figure, Report, rounds};
use drainq_core::batch::running::Running;
use drainq_core::batch::{BatchQueue, Grouping, Settings};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

const SHAPE: Shape = Shape { threads: 4, types: 100, capacity: 10_000 };
const LEFT: usize = 1_000;
const WAITING: usize = 16;

pub fn run(report: &mut Report) {
    if !report.wants("shutdown", "cycle, waiting producers") {
        return;
    }
    let count = report.options().items(100);
    let mut contestants: Vec<Contestant<'_>> = vec![
        ("drainq, create, 1,000 items, shutdown", Box::new(cycle)),
        ("drainq, only the shutdown", Box::new(shutdown)),
    ];
    let note = "4 drain threads, 100 types; every item is handled before the shutdown returns";
    report.add(Figure::new("shutdown: cycle", "us", rounds(count, &mut contestants), &[], note));
    let mut contestants: Vec<Contestant<'_>> = vec![("drainq, the last of 16 producers", Box::new(release))];
    let note = "from the close to the return of the last produce call that waited for room";
    report.add(Figure::new("shutdown: waiting producers", "us", rounds(count, &mut contestants), &[], note));
}

fn started() -> (Drainq, std::sync::mpsc::Receiver<(Instant, f64)>) {
    let (sink, end) = Sink::new(LEFT, 0, 0);
    let engine = Drainq::start(SHAPE, &sink);
    for number in 0..LEFT {
        engine.produce(Item::new((number % SHAPE.types) as u32, number));
    }
    (engine, end)
}

fn cycle() -> f64 {
    let begun = Instant::now();
    let (engine, end) = started();
    drop(engine);
    let took = begun.elapsed();
    end.try_recv().expect("everything was handled");
    took.as_nanos() as f64 / 1e3
}

fn shutdown() -> f64 {
    let (engine, end) = started();
    let begun = Instant::now();
    drop(engine);
    let took = begun.elapsed();
    end.try_recv().expect("everything was handled");
    took.as_nanos() as f64 / 1e3
}

/// A full partition whose handler hangs until the producers are gone.
fn release() -> f64 {
    let mut settings = Settings::new(1);
    settings.buffer_size = 1;
    let running = Running::start(BatchQueue::new("release", settings, Grouping::ByKey));
    let (let_go, hang) = channel::<()>();
    let hang = drainq_core::sync::Mutex::new(hang);
    let key = running.add_handler(1.0, move |_: &mut Vec<Item>| {
        hang.lock().recv().expect_err("it hangs until the other end is dropped");
    });
    let queue = running.queue();
    while queue.snapshot().total(|counts| counts.in_flight) == 0 {
        let _ = queue.try_produce(Item::new(key, 0));
    }
    assert!(queue.try_produce(Item::new(key, 0)).is_ok() || !queue.partition(0).is_empty(), "the partition is full");
    let partition = queue.partition(queue.partition_of(key));
    let took = thread::scope(|scope| {
        let wait = || {
            let mut waiter = queue.wait_for_room(0);
            while queue.produce_within(0, Item::new(key, 0), &mut waiter, Duration::from_secs(10)).is_err() {
                if !queue.is_running() {
                    return Instant::now();
                }
            }
            panic!("there is no room");
        };
        let producers: Vec<_> = (0..WAITING).map(|_| scope.spawn(wait)).collect();
        while partition.waiting() < WAITING {
            thread::yield_now();
        }
        let closed = Instant::now();
        queue.close();
        let returns = producers.into_iter().map(|producer| producer.join().expect("a producer does not panic"));
        returns.max().expect("there are producers") - closed
    });
    drop(let_go);
    running.shutdown();
    took.as_nanos() as f64 / 1e3
}
