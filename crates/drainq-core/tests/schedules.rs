//! The whole queue under many schedules: exact totals, each producer's order within a type,
//! one thread at a time in a handler, and every thread ends.
//!
//! With `--cfg drainq_shuttle` the threads are shuttle's, and each test runs DRAINQ_SCHEDULES
//! times (125 if not set) under its random scheduler and as often under PCT, without and with a
//! producers' lock. No wait has a timeout there, so a lost wake-up is found as a deadlock. A
//! failure prints the schedule.
//! In a plain build the same bodies run on real threads.
#![cfg(not(loom))]

mod world;

use drainq_core::batch::rebalance::Rebalancer;
use drainq_core::batch::{Grouping, PartitionPolicy, Settings};
use drainq_core::sync::{Arc, thread};
use std::time::Duration;
use world::{Pool, Queue, World, serve};

#[cfg(drainq_shuttle)]
fn schedules(body: fn(locked: bool)) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    let count = std::env::var("DRAINQ_SCHEDULES").map_or(125, |count| count.parse().expect("a number of schedules"));
    let config = || {
        let mut config = shuttle::Config::new();
        config.stack_size = 1 << 18;
        config
    };
    for locked in [false, true] {
        shuttle::Runner::new(RandomScheduler::new(count), config()).run(move || body(locked));
        shuttle::Runner::new(PctScheduler::new(3, count), config()).run(move || body(locked));
    }
}

#[cfg(not(drainq_shuttle))]
fn schedules(body: fn(locked: bool)) {
    for round in 0..40 {
        body(round % 2 == 1);
    }
}

/// Makes a tiny queue, whose producers share a lock or not. With a lock the queue is larger, because the fast path is
/// open only while less than a quarter of a partition is used.
fn world(threads: usize, partitions: PartitionPolicy, buffer_size: usize, locked: bool) -> Arc<World> {
    World::new(Queue::new("world", settings(threads, partitions, buffer_size, locked), Grouping::ByKey), locked)
}

fn settings(threads: usize, partitions: PartitionPolicy, buffer_size: usize, locked: bool) -> Settings {
    Settings {
        partitions,
        buffer_size: if locked { 5 * buffer_size } else { buffer_size },
        max_batch: 2,
        min_idle: Duration::ZERO,
        ..Settings::new(threads)
    }
}

type Threads = Vec<thread::JoinHandle<()>>;

fn spawn(world: &Arc<World>, threads: &mut Threads, run: impl FnOnce(&World) + Send + 'static) {
    let world = world.clone();
    threads.push(thread::spawn(move || run(&world)));
}

fn spawn_drain_threads(world: &Arc<World>) -> Threads {
    let mut threads = Threads::new();
    for me in 0..world.queue.thread_count() {
        spawn(world, &mut threads, move |world| world.drain(me as u16));
    }
    threads
}

fn join(threads: Threads) {
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn growth_while_producing_keeps_every_item_and_its_order() {
    schedules(|locked| {
        let world = world(2, PartitionPolicy::Adaptive(25), 2, locked);
        let drains = spawn_drain_threads(&world);
        let mut producers = Threads::new();
        for producer in 0..2 {
            spawn(&world, &mut producers, move |world| {
                let mut keys = Vec::new();
                for number in 1..=3 {
                    keys.push(world.add_handler(1.0, 0));
                    keys.iter().for_each(|key| assert!(world.produce(producer, *key, number)));
                }
            });
        }
        spawn(&world, &mut producers, |world| world.assert_accounted());
        join(producers);
        assert_eq!(world.queue.partition_count(), 6, "one per handler");
        world.close();
        join(drains);
        world.assert_exact();
    });
}

/// Two queues on two threads that they share; one of them ends while the other still has work.
#[test]
fn queues_that_share_their_threads_are_drained_and_end() {
    schedules(|locked| {
        let pool = Arc::new(Pool::new(2));
        let worlds = [1, 2].map(|partitions| {
            let settings = settings(2, PartitionPolicy::Fixed(partitions), 2, locked);
            let world = World::new(Queue::on_pool("world", settings, Grouping::ByKey, pool.sleepers()), locked);
            (0..partitions).for_each(|_| assert!(world.add_handler(1.0, 3) < 2));
            pool.add(world.queue.clone(), world.clone());
            world
        });
        let mut drains = Threads::new();
        for _ in 0..2 {
            let pool = pool.clone();
            drains.push(thread::spawn(move || serve(&pool)));
        }
        let mut others = Threads::new();
        for (producer, world) in (0..).zip(&worlds) {
            spawn(world, &mut others, move |world| {
                for number in 1..=4 {
                    assert!((0..=producer).all(|key| world.produce(producer, key, number)));
                }
                world.assert_accounted();
                world.close();
            });
        }
        spawn(&worlds[1], &mut others, |world| {
            let rebalancer = Rebalancer::new(world.queue.clone());
            for plan in [[1, 0], [0, 0], [1, 1]] {
                rebalancer.carry_out(&plan);
            }
        });
        join(others);
        pool.stop();
        join(drains);
        worlds.iter().for_each(|world| world.assert_exact());
    });
}

#[test]
fn moves_during_a_shutdown_lose_nothing_and_share_no_handler() {
    schedules(|locked| {
        let world = world(3, PartitionPolicy::Fixed(3), 2, locked);
        let keys = [world.add_handler(1.0, 2), world.add_handler(1.0, 0)];
        let drains = spawn_drain_threads(&world);
        let mut others = Threads::new();
        for producer in 0..2 {
            spawn(&world, &mut others, move |world| {
                // The calls end early if the close comes first.
                let _open = (1..=4).all(|number| keys.iter().all(|key| world.produce(producer, *key, number)));
            });
        }
        spawn(&world, &mut others, |world| {
            let rebalancer = Rebalancer::new(world.queue.clone());
            for plan in [[1, 2, 0], [2, 0, 1], [0, 0, 0]] {
                rebalancer.carry_out(&plan);
            }
            world.close();
        });
        join(others);
        join(drains);
        world.assert_exact();
    });
}

#[test]
fn blocked_producers_get_room_or_hear_of_the_close() {
    schedules(|locked| {
        let world = world(1, PartitionPolicy::Fixed(1), 1, locked);
        let key = world.add_handler(1.0, 0);
        let drains = spawn_drain_threads(&world);
        let mut producers = Threads::new();
        for producer in 0..4 {
            spawn(&world, &mut producers, move |world| {
                let _open = (1..=3).all(|number| world.produce(producer, key, number));
            });
        }
        thread::yield_now();
        world.close();
        join(producers);
        join(drains);
        world.assert_exact();
    });
}

/// Places that one partition frees are room for the producers of both.
#[test]
fn producers_of_two_partitions_that_share_a_capacity_get_room_or_hear_of_the_close() {
    schedules(|locked| {
        let settings = Settings {
            capacity: Some(if locked { 8 } else { 2 }),
            ..settings(2, PartitionPolicy::Fixed(2), 2, locked)
        };
        let world = World::new(Queue::new("world", settings, Grouping::ByKey), locked);
        let keys = [world.add_handler(1.0, 0), world.add_handler(1.0, 0)];
        let drains = spawn_drain_threads(&world);
        let mut producers = Threads::new();
        for producer in 0..3 {
            spawn(&world, &mut producers, move |world| {
                for number in 1..=4 {
                    assert!(world.produce(producer, keys[producer as usize % 2], number));
                    assert!(producer < 2 || world.produce(producer, keys[1], number));
                }
            });
        }
        spawn(&world, &mut producers, |world| world.assert_accounted());
        join(producers);
        world.close();
        join(drains);
        world.assert_exact();
    });
}

#[test]
fn a_cut_in_the_middle_of_everything_counts_each_item_once() {
    schedules(|locked| {
        let world = world(2, PartitionPolicy::Fixed(2), 2, locked);
        let keys = [world.add_handler(1.0, 0), world.add_handler(1.0, 2)];
        let drains = spawn_drain_threads(&world);
        let mut others = Threads::new();
        for producer in 0..2 {
            spawn(&world, &mut others, move |world| {
                let _open = (1..=3).all(|number| keys.iter().all(|key| world.produce(producer, *key, number)));
            });
        }
        spawn(&world, &mut others, |world| {
            world.assert_accounted();
            world.cut();
            world.assert_accounted();
        });
        join(others);
        join(drains);
        world.assert_exact();
    });
}
