//! Real threads for as long as wanted: producers, drain threads, a rebalancer, growth,
//! failing handlers, and a close while producers wait for room; round after round.
//!
//! Each round ends with exact totals; order within a type and one thread per handler are
//! checked at each call, on plain memory, so ThreadSanitizer checks them as well. This is a
//! program without a test harness, so that nothing but the queue runs under the sanitizer.
//!
//! DRAINQ_STRESS_SECONDS sets how long the rounds last: 2 seconds if not set. DRAINQ_MUTANT
//! plants a fault, in a build with `--cfg drainq_mutants`.
#![cfg_attr(any(loom, drainq_shuttle), allow(unused, reason = "real threads only"))]

mod world;

use drainq_core::batch::drain_balancer::ThroughputWeighted;
use drainq_core::batch::rebalance::Rebalancer;
use drainq_core::batch::{Grouping, PartitionPolicy, Settings};
// This is not the lock of std, whose slow path is compiled without the sanitizer.
use drainq_core::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use world::{Pool, Queue, World, serve};

const PRODUCERS: u32 = 4;
const DRAIN_THREADS: usize = 3;
/// Items accepted before the close of a round.
const ITEMS: u64 = 5_000;
/// Items between two moves. Each move also adds a handler, until there are [`HANDLERS`].
const BETWEEN_MOVES: u64 = 50;
const HANDLERS: usize = 40;

fn main() {
    // Some other test was asked for by name, or a list of tests.
    if std::env::args().skip(1).any(|word| word == "--list" || !word.starts_with('-')) {
        return;
    }
    let seconds = std::env::var("DRAINQ_STRESS_SECONDS").map_or(2.0, |text| text.parse().expect("a number of seconds"));
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let (mut rounds, mut items, mut moves) = (0_u64, 0, 0);
    while rounds == 0 || Instant::now() < end {
        let (accepted, moved) = round(rounds);
        rounds += 1;
        items += accepted;
        moves += moved;
    }
    println!("stress: {rounds} rounds, {items} items, {moves} moves: every item accounted for");
}

/// Runs one queue with its own threads, or two queues that share theirs, from start to close. Returns the number of
/// items accepted and of partitions moved.
fn round(seed: u64) -> (u64, usize) {
    if seed % 3 < 2 {
        let world = World::new(Queue::new("stress", settings(seed), Grouping::ByKey), seed % 5 < 2);
        let drains = (0..DRAIN_THREADS).map(|me| {
            let world = world.clone();
            thread::spawn(move || world.drain(me as u16))
        });
        let drains: Vec<_> = drains.collect();
        let done = use_queue(&world, seed);
        join(drains);
        world.assert_exact();
        return done;
    }
    let pool = Arc::new(Pool::new(DRAIN_THREADS));
    let drains = (0..DRAIN_THREADS).map(|_| {
        let pool = pool.clone();
        thread::spawn(move || serve(&pool))
    });
    let drains: Vec<_> = drains.collect();
    let worlds = [seed, seed + 1].map(|seed| {
        let queue = Queue::on_pool("stress", settings(seed), Grouping::ByKey, pool.sleepers());
        let world = World::new(queue, seed % 5 < 2);
        pool.add(world.queue.clone(), world.clone());
        (world, seed)
    });
    let users = worlds.clone().map(|(world, seed)| thread::spawn(move || use_queue(&world, seed)));
    let done = users.map(|user| user.join().expect("no thread fails"));
    pool.stop();
    join(drains);
    worlds.iter().for_each(|(world, _)| world.assert_exact());
    (done[0].0 + done[1].0, done[0].1 + done[1].1)
}

fn join(threads: Vec<thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("no thread fails");
    }
}

fn settings(seed: u64) -> Settings {
    Settings {
        partitions: PartitionPolicy::Adaptive(25),
        buffer_size: [1, 7, 64, 700][seed as usize % 4],
        max_batch: [1, 50, 8_192][seed as usize % 3],
        min_idle: Duration::from_micros([0, 200][seed as usize % 2]),
        max_idle: Duration::from_millis(5),
        ..Settings::new(DRAIN_THREADS)
    }
}

/// Does everything with one queue except draining it, up to the close.
fn use_queue(world: &Arc<World>, seed: u64) -> (u64, usize) {
    let keys = Arc::new(Mutex::new((0..4).map(|n| world.add_handler(1.0, n * 3)).collect::<Vec<_>>()));
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let (world, keys) = (world.clone(), keys.clone());
            thread::spawn(move || {
                let mut dice = seed ^ u64::from(producer) << 32 | 1;
                for number in 1.. {
                    // All continue until the close, which finds waiting producers.
                    dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let key = {
                        let keys = keys.lock();
                        // Skewed: half of the items go to the first handler.
                        keys[if dice >> 63 == 0 { 0 } else { (dice >> 33) as usize % keys.len() }]
                    };
                    if !world.produce(producer, key, number) {
                        return;
                    }
                }
            })
        })
        .collect();
    let mut rebalancer = Rebalancer::new(world.queue.clone());
    let mut moves = 0;
    let mut turn = 0;
    for goal in (0..ITEMS).step_by(BETWEEN_MOVES as usize) {
        while world.produced.accepted.load(Ordering::Relaxed) < goal {
            thread::yield_now();
        }
        turn += 1;
        if keys.lock().len() < HANDLERS {
            let key = world.add_handler(1.0, 0);
            keys.lock().push(key);
        }
        moves += if turn % 2 == 0 {
            rebalancer.run(&ThroughputWeighted)
        } else {
            let rotated: Vec<u16> =
                (0..world.queue.partition_count()).map(|p| (p as u16 + turn) % DRAIN_THREADS as u16).collect();
            rebalancer.carry_out(&rotated)
        };
        world.assert_accounted();
    }
    world.close();
    join(producers);
    (world.queue.snapshot().accepted, moves)
}
