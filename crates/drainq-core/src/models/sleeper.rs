//! A thread that falls asleep while an item arrives: Dekker's argument of `wait/sleeper.rs`.

use super::Met;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, deep_model, thread};
use crate::wait::sleeper::{Depth, Sleeper, producer_fence};
use std::time::Duration;

#[test]
fn an_item_published_to_an_idle_thread_is_never_missed() {
    let met = Met::default();
    let note = met.clone();
    deep_model(move || {
        let (sleeper, parker) = Sleeper::of_thread();
        let shared = Arc::new((sleeper, AtomicBool::new(false)));
        let drain = {
            let (shared, note) = (shared.clone(), note.clone());
            thread::spawn(move || {
                let mut looks = 0;
                while !shared.1.load(Ordering::Relaxed) {
                    looks += 1;
                    let mut seen = false;
                    shared.0.sleep(
                        &parker,
                        (Depth::Idle, None),
                        || {},
                        || {
                            seen = shared.1.load(Ordering::Relaxed);
                            seen
                        },
                    );
                    note.note(if seen { "seen on the second look" } else { "woken" });
                }
                if looks == 0 {
                    note.note("never slept");
                }
            })
        };
        shared.1.store(true, Ordering::Relaxed);
        producer_fence();
        shared.0.wake(|| false);
        drain.join().unwrap();
    });
    met.exactly(&["never slept", "seen on the second look", "woken"]);
}

/// Producers under one lock, which the sleeper takes and gives back between the two steps.
#[test]
fn within_the_producers_lock_no_fence_is_needed() {
    deep_model(|| {
        let (sleeper, parker) = Sleeper::of_thread();
        let shared = Arc::new((sleeper, AtomicBool::new(false), Mutex::new(())));
        let drain = {
            let shared = shared.clone();
            thread::spawn(move || {
                while !shared.1.load(Ordering::Relaxed) {
                    let sync_with_producers = || drop(shared.2.lock());
                    let work = || shared.1.load(Ordering::Relaxed);
                    shared.0.sleep(&parker, (Depth::Idle, None), sync_with_producers, work);
                }
            })
        };
        {
            let _lock = shared.2.lock();
            shared.1.store(true, Ordering::Relaxed);
            shared.0.wake(|| false);
        }
        drain.join().unwrap();
    });
}

/// Two producers find one sleeper: one producer wakes it, and both items are seen.
#[test]
fn of_two_producers_one_wakes_and_none_is_missed() {
    deep_model(|| {
        let rings = Arc::new(AtomicUsize::new(0));
        let parker = crate::sync::Parker::new();
        let (unparker, counted) = (parker.unparker().clone(), rings.clone());
        let sleeper = Sleeper::new(Box::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            unparker.unpark();
        }));
        let shared = Arc::new((sleeper, AtomicUsize::new(0)));
        let produce = |shared: &(Sleeper, AtomicUsize)| {
            shared.1.fetch_add(1, Ordering::Relaxed);
            producer_fence();
            shared.0.wake(|| false);
        };
        let other = {
            let shared = shared.clone();
            thread::spawn(move || produce(&shared))
        };
        let drain = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (mut sleeps, mut seen) = (0, 0);
                while seen < 2 {
                    seen = shared.1.load(Ordering::Relaxed);
                    if seen < 2 {
                        sleeps += 1;
                        shared.0.sleep(&parker, (Depth::Idle, None), || {}, || shared.1.load(Ordering::Relaxed) > seen);
                    }
                }
                sleeps
            })
        };
        produce(&shared);
        other.join().unwrap();
        let sleeps = drain.join().unwrap();
        assert!(rings.load(Ordering::Relaxed) <= sleeps, "no more rings than sleeps");
    });
}

/// A nap turns into an idle sleep after a producer has read the state and before the producer wakes the thread.
#[test]
fn a_thread_that_goes_from_nap_to_idle_is_woken() {
    deep_model(|| {
        let (sleeper, parker) = Sleeper::of_thread();
        let shared = Arc::new((sleeper, AtomicBool::new(false)));
        let drain = {
            let shared = shared.clone();
            thread::spawn(move || {
                let seen = || shared.1.load(Ordering::Relaxed);
                // The nap is over at once: its time ran out.
                shared.0.fall_asleep(Depth::Nap, || {}, seen);
                while !seen() {
                    shared.0.sleep(&parker, (Depth::Idle, None), || {}, seen);
                }
            })
        };
        shared.1.store(true, Ordering::Relaxed);
        producer_fence();
        shared.0.wake(|| true);
        drain.join().unwrap();
    });
}

/// The time of a sleep runs out. The thread then runs other code, and continues its sleep without a second check.
#[test]
fn a_thread_that_sleeps_on_is_woken() {
    let met = Met::default();
    let note = met.clone();
    deep_model(move || {
        let (sleeper, parker) = Sleeper::of_thread();
        let shared = Arc::new((sleeper, AtomicBool::new(false), Mutex::new(())));
        let drain = {
            let (shared, note) = (shared.clone(), note.clone());
            thread::spawn(move || {
                let seen = || shared.1.load(Ordering::Relaxed);
                let sync_with_producers = || drop(shared.2.lock());
                let no_time = (Depth::Idle, Some(Duration::ZERO));
                let mut is_still_idle = shared.0.sleep(&parker, no_time, sync_with_producers, seen);
                note.note(if is_still_idle { "sleeps on" } else { "looks again" });
                while is_still_idle {
                    is_still_idle = shared.0.sleep_on(&parker, None);
                }
                while !seen() {
                    shared.0.sleep(&parker, (Depth::Idle, None), sync_with_producers, seen);
                }
            })
        };
        {
            let _lock = shared.2.lock();
            shared.1.store(true, Ordering::Relaxed);
            shared.0.wake(|| false);
        }
        drain.join().unwrap();
    });
    met.exactly(&["looks again", "sleeps on"]);
}
