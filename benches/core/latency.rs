//! Latency: from an idle queue to the handler, and until a burst releases its producer.

use crate::engine::{Drainq, Engine, Partitioned, Shape, Sink};
use crate::item::{Item, Random};
use crate::protocol::{Contestant, Figure, Goal, Report, quantile, rounds};
use crossbeam::queue::ArrayQueue;
use drainq_core::batch::running::Running;
use drainq_core::batch::{BatchQueue, Grouping, Settings};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const ONE: Shape = Shape { threads: 1, types: 1, capacity: 2_000 };
const PATIENCE: Duration = Duration::from_secs(10);
/// The items before a burst: one each 10 us for 10 ms.
const STREAM: usize = 1_000;
const STREAM_EVERY: Duration = Duration::from_micros(10);

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// One who hands an item to a waiting thread, and the times at which that thread had it.
struct Waiting<'a> {
    name: &'static str,
    produce: Box<dyn Fn() + 'a>,
    handled: Receiver<Instant>,
}

fn channel_thread(recv: impl Fn() -> bool + Send + 'static) -> Receiver<Instant> {
    let (sender, handled) = channel();
    std::thread::spawn(move || while recv() && sender.send(Instant::now()).is_ok() {});
    handled
}

/// Says when a handler was called. The one who listens may have gone by the time of the last batch.
fn tell(sender: &Sender<Instant>) {
    let _ = sender.send(Instant::now());
}

fn one_thread_queue(sender: Sender<Instant>) -> Drainq {
    let mut settings = Settings::new(1);
    settings.buffer_size = ONE.capacity;
    let running = Running::start(BatchQueue::new("wake", settings, Grouping::ByKey));
    running.add_handler(1.0, move |_: &mut Vec<Item>| tell(&sender));
    Drainq(running)
}

/// One item at random gaps of 3 to 20 ms, for one contestant after the other.
pub fn wake(report: &mut Report) {
    if !report.wants("wake", "latency p50 p99") {
        return;
    }
    let (sender, handled) = channel();
    let drainq = one_thread_queue(sender);
    let (sender, source_handled) = channel();
    let source = Partitioned::<ArrayQueue<Item>>::start_with(ONE, move |_| tell(&sender));
    let (flume_sender, receiver) = flume::bounded(ONE.capacity);
    let flume_handled = channel_thread(move || receiver.recv().is_ok());
    let (kanal_sender, receiver) = kanal::bounded(ONE.capacity);
    let kanal_handled = channel_thread(move || receiver.recv().is_ok());
    let item = Item::new(0, 1);
    let mut waiting = [
        Waiting { name: "drainq", produce: Box::new(|| drainq.produce(item)), handled },
        Waiting {
            name: "flume, thread in recv",
            produce: Box::new(|| flume_sender.send(item).expect("its thread receives")),
            handled: flume_handled,
        },
        Waiting {
            name: "kanal, thread in recv",
            produce: Box::new(|| kanal_sender.send(item).expect("its thread receives")),
            handled: kanal_handled,
        },
        Waiting {
            name: "source design, back-off 1-50 ms",
            produce: Box::new(|| source.produce(item)),
            handled: source_handled,
        },
    ];
    let mut contestants: Vec<Contestant<'_>> = Vec::new();
    for (number, Waiting { name, produce, handled }) in waiting.iter_mut().enumerate() {
        let mut random = Random(number as u64 + 99);
        let sample = move || {
            std::thread::sleep(Duration::from_micros(3_000 + random.below(17_000) as u64));
            let produced = Instant::now();
            produce();
            micros(handled.recv_timeout(PATIENCE).expect("the item arrives") - produced)
        };
        contestants.push((name, Box::new(sample)));
    }
    let costs = rounds(report.options().items(400), &mut contestants);
    drop(contestants);
    let worst = costs.iter().map(|(name, values)| (*name, vec![quantile(values, 0.99)])).collect();
    let note = "from before produce to the start of the handler; one drain thread; gaps of 3-20 ms; a round is an item";
    report.add(Figure::new("wake: latency p50", "us", costs, &[Goal::at_most("drainq", 50.0, 15.0)], note));
    report.add(Figure::new("wake: latency p99", "us", worst, &[Goal::at_most("drainq", 1_000.0, 100.0)], note));
}

/// 2,001 items at once into a partition of 2,000, and how long the slowest produce call took.
pub fn burst(report: &mut Report) {
    if !report.wants("burst", "longest produce call") {
        return;
    }
    let burst = ONE.capacity + 1;
    let run = |start: &dyn Fn(&Arc<Sink>) -> Box<dyn Engine>, asleep: Duration| {
        // A stream of items first, so frequent that a thread of drainq naps after them, and `asleep` later all the others.
        let (first, first_done) = Sink::new(STREAM, 0, 0);
        let engine = start(&first);
        for number in 0..STREAM {
            engine.produce(Item::new(0, number));
            let produced = Instant::now();
            while produced.elapsed() < STREAM_EVERY {
                std::hint::spin_loop();
            }
        }
        let (handled, _) = first_done.recv_timeout(PATIENCE).expect("the items arrive");
        while handled.elapsed() < asleep {
            std::thread::sleep(asleep.saturating_sub(handled.elapsed() + Duration::from_micros(100)));
        }
        let mut longest = Duration::ZERO;
        for number in 0..burst {
            let started = Instant::now();
            engine.produce(Item::new(0, number));
            longest = longest.max(started.elapsed());
        }
        micros(longest)
    };
    let drainq: &dyn Fn(&Arc<Sink>) -> Box<dyn Engine> = &|sink| Box::new(Drainq::start(ONE, sink));
    let source: &dyn Fn(&Arc<Sink>) -> Box<dyn Engine> =
        &|sink| Box::new(Partitioned::<ArrayQueue<Item>>::start(ONE, sink));
    let (napping, idle) = (Duration::from_micros(300), Duration::from_millis(80));
    let mut contestants: Vec<Contestant<'_>> = vec![
        ("drainq, thread naps", Box::new(|| run(drainq, napping))),
        ("drainq, thread idle", Box::new(|| run(drainq, idle))),
        ("source design, first sleep", Box::new(|| run(source, napping))),
        ("source design, long idle", Box::new(|| run(source, idle))),
    ];
    let costs = rounds(report.options().items(60), &mut contestants);
    drop(contestants);
    let goals = [Goal::at_most("drainq, thread naps", 200.0, 50.0), Goal::at_most("drainq, thread idle", 200.0, 50.0)];
    let note = "2,001 items at once into a partition of 2,000 places";
    report.add(Figure::new("burst: longest produce call", "us", costs, &goals, note));
}
