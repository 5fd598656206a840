//! The benchmark that the source published: 16 producers, 4 drain threads, 100 types 24/8/4/1, and 500 dependent
//! multiply-adds for each item; against what the processor can do at all. With a balancer, as there: its types are
//! numbered so that one thread has 24 of 37 parts of the load before the first move.

use crate::contend::{SHAPE, one_run};
use crate::engine::{Cost, Drainq, Engine, Partitioned, Sink};
use crate::item::{Item, skewed, work};
use crate::machine::{cores, thread_cpu_nanos};
use crate::protocol::{Contestant, Figure, Goal, Report, part, rounds};
use crossbeam::queue::ArrayQueue;
use drainq_core::batch::drain_balancer::ThroughputWeighted;
use drainq_core::batch::flush::{Flush, Flushed};
use drainq_core::batch::rebalance::Rebalancer;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const STEPS: usize = 500;

pub fn run(report: &mut Report) {
    if report.wants("seed", "throughput cpu") {
        throughput(report);
    }
    if report.wants("seed", "load ratio") {
        load_ratio(report);
    }
}

/// The work alone, on as many threads as the queue's drain threads, or as there are cores.
fn work_alone(items: usize) -> Cost {
    let workers = cores().min(SHAPE.threads);
    let share = items / workers;
    let alone = || {
        let (started, cpu) = (Instant::now(), thread_cpu_nanos());
        for number in 0..share {
            black_box(work(STEPS, number));
        }
        (started, Instant::now(), thread_cpu_nanos() - cpu)
    };
    let runs: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(alone)).collect();
        threads.into_iter().map(|thread| thread.join().expect("multiplying does not panic")).collect()
    });
    let started = runs.iter().map(|run| run.0).min().expect("there is a core");
    let ended = runs.iter().map(|run| run.1).max().expect("there is a core");
    let done = (share * workers) as f64;
    Cost { wall: (ended - started).as_nanos() as f64 / done, cpu: runs.iter().map(|run| run.2).sum::<f64>() / done }
}

/// drainq with a balancer that looks every 20 ms.
struct Balanced {
    queue: Drainq,
    balancer: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Balanced {
    fn start(sink: &Arc<Sink>) -> Self {
        let queue = Drainq::start(SHAPE, sink);
        let mut rebalancer = Rebalancer::new(queue.0.queue().clone());
        let (end, ended) = channel();
        let balancer = std::thread::spawn(move || {
            while ended.recv_timeout(Duration::from_millis(20)) == Err(RecvTimeoutError::Timeout) {
                rebalancer.run(&ThroughputWeighted);
            }
        });
        Self { queue, balancer: Some((end, balancer)) }
    }
}

impl Engine for Balanced {
    #[inline]
    fn produce(&self, item: Item) {
        self.queue.produce(item);
    }
}

impl Drop for Balanced {
    fn drop(&mut self) {
        if let Some((end, balancer)) = self.balancer.take() {
            drop(end);
            balancer.join().expect("the balancer does not panic");
        }
    }
}

fn throughput(report: &mut Report) {
    let items = report.options().items(2_000_000);
    let drainq = move || one_run(Balanced::start, items, 0, STEPS);
    let unbalanced = move || one_run(|sink| Drainq::start(SHAPE, sink), items, 0, STEPS);
    let source = move || one_run(|sink| Partitioned::<ArrayQueue<Item>>::start(SHAPE, sink), items, 0, STEPS);
    let mut contestants: Vec<Contestant<'_, Cost>> = vec![
        ("(physical limit)", Box::new(move || work_alone(items))),
        ("drainq", Box::new(drainq)),
        ("drainq, no balancer", Box::new(unbalanced)),
        ("ArrayQueue partitions", Box::new(source)),
    ];
    let costs = rounds(report.options().rounds, &mut contestants);
    let goals = [Goal::faster("drainq", "(physical limit)", 0.90, 0.97)];
    let note = "16 producers, 4 drain threads, 100 types 24/8/4/1, 500 dependent multiply-adds an item; \
                the limit is 4 threads, or a thread a core, that only multiply";
    report.add(Figure::new("seed: throughput", "ns/item", part(&costs, |cost| cost.wall), &goals, note));

    let mut cpu = part(&costs, |cost| cost.cpu);
    let (_, work) = cpu.remove(0);
    for (_, values) in &mut cpu {
        values.iter_mut().zip(&work).for_each(|(value, work)| *value -= work);
    }
    let note = "processor time of the process per item, producers included, minus that of the work in the same round";
    report.add(Figure::new("seed: cpu of the queue", "cpu-ns/item", cpu, &[Goal::at_most("drainq", 25.0, 12.0)], note));
}

/// How evenly four drain threads are loaded after one rebalance of a skewed load.
fn load_ratio(report: &mut Report) {
    let items = report.options().items(1_000_000);
    let count = report.options().rounds.min(5);
    let mut ratios = [Vec::new(), Vec::new()];
    for round in 0..count {
        let (sink, _end) = Sink::new(usize::MAX, 0, 1);
        let engine = Drainq::start(SHAPE, &sink);
        let queue = engine.0.queue().clone();
        let mut rebalancer = Rebalancer::new(queue.clone());
        let types = skewed(SHAPE.types, round as u64 + 7);
        let load = || {
            let before = queue.snapshot();
            for (number, at) in (0..items).zip(types.iter().cycle()) {
                engine.produce(Item::new(*at as u32, number));
            }
            let mut flush = Flush::of_queue(&queue);
            while flush.wait(Duration::from_millis(100)) == Flushed::NotYet {}
            let after = queue.snapshot();
            let loads = after
                .workers
                .iter()
                .zip(&before.workers)
                .map(|(after, before)| after.outcomes.handled - before.outcomes.handled);
            let loads: Vec<f64> = loads.map(|load| load as f64).collect();
            loads.iter().copied().fold(0.0, f64::max) / loads.iter().copied().fold(f64::INFINITY, f64::min).max(1.0)
        };
        ratios[0].push(load());
        assert!(rebalancer.run(&ThroughputWeighted) > 0, "a skewed load is worth a move");
        ratios[1].push(load());
    }
    let [before, after] = ratios;
    let costs = vec![("drainq, before", before), ("drainq, after one rebalance", after)];
    let goals = [Goal::at_most("drainq, after one rebalance", 1.05, 1.02)];
    let note = "items handled by the busiest drain thread, over those handled by the least busy one";
    report.add(Figure::new("seed: load ratio", "times the least busy thread", costs, &goals, note));
}
