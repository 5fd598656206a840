//! A move takes effect within one batch: what the old owner still does, and when the new one begins.

use crate::item::{Item, work};
use crate::protocol::{Contestant, Figure, Goal, Report, part, rounds};
use drainq_core::batch::item::ThreadId;
use drainq_core::batch::rebalance::Rebalancer;
use drainq_core::batch::running::Running;
use drainq_core::batch::{BatchQueue, Grouping, PartitionPolicy, Settings};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, ThreadId as Thread};
use std::time::{Duration, Instant};

/// Multiply-adds of a handler call: about 50 us.
const PER_BATCH: usize = 50_000;

/// One handler call.
struct Call {
    thread: Thread,
    started: Instant,
    ended: Instant,
}

struct Moved {
    /// Calls of the old owner that ended after the move was asked for.
    late_calls: f64,
    /// From asking to the new owner's first call, in us.
    micros: f64,
}

pub fn run(report: &mut Report) {
    if !report.wants("move", "late calls, time") {
        return;
    }
    let mut settings = Settings::new(2);
    settings.partitions = PartitionPolicy::Fixed(2);
    settings.max_batch = 1_000;
    let running = Running::start(BatchQueue::new("move", settings, Grouping::ByKey));
    let (sender, calls) = channel();
    let key = running.add_handler(1.0, move |batch: &mut Vec<Item>| {
        let started = Instant::now();
        black_box(work(PER_BATCH, batch.len()));
        // The one who listens may have gone by the time of the last batch.
        let _ = sender.send(Call { thread: thread::current().id(), started, ended: Instant::now() });
    });
    let queue = running.queue().clone();
    let partition = queue.partition_of(key) as usize;
    let rebalancer = Rebalancer::new(queue.clone());
    let stop = AtomicBool::new(false);
    let costs = thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if queue.try_produce(Item::new(key, 1)).is_err() {
                    queue.wait_for_room(partition as u32).wait(Duration::from_millis(1));
                }
            }
        });
        let next = || calls.recv_timeout(Duration::from_secs(10)).expect("the queue is busy");
        let mut owner: ThreadId = queue.partition(partition as u32).owner();
        let a_move = || {
            calls.try_iter().for_each(drop);
            let old = next().thread;
            owner = 1 - owner;
            let mut plan: Vec<ThreadId> = vec![0, 1];
            plan[partition] = owner;
            let asked = Instant::now();
            assert_eq!(rebalancer.carry_out(&plan), 1, "one partition moves");
            let done = Instant::now();
            let mut late_calls = 0.0;
            loop {
                let call = next();
                if call.thread != old {
                    return Moved { late_calls, micros: (call.started - asked).as_nanos() as f64 / 1e3 };
                }
                if call.ended > done {
                    late_calls += 1.0;
                }
            }
        };
        let mut contestants: Vec<Contestant<'_, Moved>> = vec![("drainq", Box::new(a_move))];
        let costs = rounds(report.options().items(200), &mut contestants);
        stop.store(true, Ordering::Relaxed);
        costs
    });
    running.shutdown();
    let worst = part(&costs, |moved| moved.late_calls);
    let worst = vec![("drainq, most of all moves", vec![worst[0].1.iter().copied().fold(0.0, f64::max)])];
    let note = "handler calls of the old owner that ended after the move was asked for, on a busy partition";
    report.add(Figure::new(
        "move: late calls",
        "calls",
        worst,
        &[Goal::at_most("drainq, most of all moves", 1.0, 1.0)],
        note,
    ));
    let note = "from asking to the new owner's first call; a call takes about 50 us";
    report.add(Figure::new("move: time", "us", part(&costs, |moved| moved.micros), &[], note));
}
