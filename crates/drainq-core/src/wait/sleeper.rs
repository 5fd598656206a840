//! The sleep of a drain thread: the thread misses no item, and a producer wakes the thread.
//!
//! A drain thread that found no item while items arrive frequently first *naps* for a short fixed time. Only a
//! partition that is at least half full ends the nap early. So batches form, and a fast stream of items costs at most
//! one wake-up per nap. If there is no item after the nap, or items are rare (`batch/drain_idle_sleep.rs`), the thread falls
//! *idle*, and the next item wakes it at once.
//!
//! # Invariants
//! 1. A sleeper sets its state, runs a SeqCst fence, then checks its partitions a second time. A producer publishes an
//!    item, runs a SeqCst fence, then reads the state. So either the sleeper finds the item or the producer finds the
//!    sleeper: no wake-up is lost. Producers that share a lock need no fence: instead the sleeper takes that lock and
//!    releases it between its two steps (`sync_with_producers`). The second check sees the item of a produce call that
//!    held the lock before. A produce call that holds the lock later sees the state.
//! 2. A producer changes the state from `NAP` or `IDLE` to `AWAKE` by a compare-and-swap, and wakes the sleeper only if
//!    that succeeds: a thousand producers make one wake-up.
//! 3. Unparking a thread that is not parked yet leaves a token: a wake-up between the second check and the park ends
//!    the park at once.
//! 4. A thread whose time ran out while the state was still `IDLE` may leave the state, run any code and park again
//!    ([`Sleeper::sleep_on`]). For the producers the thread never stopped sleeping, so it needs no lock. The thread
//!    must still look for work: a token left while it was awake also ends a park, and the state is then still `IDLE`.
//!
//! Source: Dekker's argument is that of the event counts of folly and crossbeam-channel. crossbeam-epoch also uses a
//! locked instruction instead of the fence. The nap is the first step of SkyWalking's idle back-off.

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Parker, full_fence, planted};
use std::time::Duration;

const AWAKE: u32 = 0;
const NAP: u32 = 1;
const IDLE: u32 = 2;

/// Runs the fence of a producer, between publishing an item and reading the state of a sleeper.
#[inline]
pub fn producer_fence() {
    full_fence("wake_producer_fence");
}

/// Runs the [`producer_fence`] of a producer that has just claimed a slot by a SeqCst compare-and-swap on the word that
/// sleepers read in their second check.
///
/// The second check must not miss the claim: a sleeper that sees a claim stays awake until the item is published. On
/// x86 the locked instruction is a full barrier, and SeqCst keeps the compiler from moving an access over it; on other
/// processors this is a fence.
#[inline]
pub fn fence_after_swap() {
    if !cfg!(all(target_arch = "x86_64", not(any(loom, drainq_shuttle)))) {
        full_fence("claim_fence");
    }
}

/// Runs the fence of a sleeper, between setting its state and its second check.
#[inline]
fn sleeper_fence() {
    full_fence("wake_sleeper_fence");
}

/// The depth of a thread's sleep, which decides what wakes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Woken by a partition that is half full or full, and by the queue itself.
    Nap,
    /// Woken by any item.
    Idle,
}

/// A wake-up: unparks a thread, or marks a slot of a pool as ready.
pub type Alarm = Box<dyn Fn() + Send + Sync>;

/// The sleep of one drain thread, or of one slot of a pool.
pub struct Sleeper {
    state: AtomicU32,
    alarm: Alarm,
}

impl Sleeper {
    /// Makes a sleeper that is awake and is woken by `alarm`.
    pub fn new(alarm: Alarm) -> Self {
        Self { state: AtomicU32::new(AWAKE), alarm }
    }

    /// Makes a sleeper for one thread, and the parker on which that thread sleeps.
    pub fn of_thread() -> (Self, Parker) {
        let parker = Parker::new();
        let unparker = parker.unparker().clone();
        (Self::new(Box::new(move || unparker.unpark())), parker)
    }

    /// Sets the state to asleep and runs the second check, `work`: returns true if the thread may park, and false,
    /// with the state awake again, if `work` found something.
    ///
    /// Before the check this method calls `sync_with_producers`, which takes and releases the producers' lock, if they
    /// share one (invariant 1). Before a nap `sync_with_producers` may do nothing, because a nap ends by itself.
    pub fn fall_asleep(&self, depth: Depth, sync_with_producers: impl FnOnce(), work: impl FnOnce() -> bool) -> bool {
        self.state.store(if depth == Depth::Nap { NAP } else { IDLE }, Ordering::Relaxed);
        sleeper_fence();
        if !planted("wake_sync") {
            sync_with_producers();
        }
        let asleep = planted("wake_second_check") || !work();
        if !asleep {
            self.wake_up();
        }
        asleep
    }

    /// Sets the state to awake; called by the sleeper's own thread.
    pub fn wake_up(&self) {
        self.state.store(AWAKE, Ordering::Relaxed);
    }

    /// Sleeps on `parker` until woken, `timeout` at most; returns at once if the second check, `work`, finds something.
    ///
    /// Returns whether the thread is still idle for its producers. If so, the thread may [`Self::sleep_on`] if it finds
    /// no work, and must [`Self::wake_up`] before it takes items (invariant 4).
    pub fn sleep(
        &self,
        parker: &Parker,
        (depth, timeout): (Depth, Option<Duration>),
        sync_with_producers: impl FnOnce(),
        work: impl FnOnce() -> bool,
    ) -> bool {
        self.fall_asleep(depth, sync_with_producers, work) && self.sleep_on(parker, timeout)
    }

    /// Continues a sleep whose time ran out; returns as [`Self::sleep`] does (invariant 4).
    pub fn sleep_on(&self, parker: &Parker, timeout: Option<Duration>) -> bool {
        match timeout {
            Some(timeout) => parker.park_timeout(timeout),
            None => parker.park(),
        }
        let is_still_idle = self.state.load(Ordering::Relaxed) == IDLE;
        if !is_still_idle || planted("wake_sleep_on") {
            self.wake_up();
        }
        is_still_idle
    }

    /// Wakes the thread if it is idle, or if it naps and `urgent` returns true. Call this after [`producer_fence`] or
    /// under the producers' lock.
    #[inline]
    pub fn wake(&self, urgent: impl FnOnce() -> bool) {
        let state = self.state.load(Ordering::Relaxed);
        if state == IDLE || (state == NAP && urgent()) {
            self.wake_from(state);
        }
    }

    #[cold]
    fn wake_from(&self, state: u32) {
        if self.state.compare_exchange(state, AWAKE, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            (self.alarm)();
        } else if state == NAP {
            // The state was NAP when `wake` read it; it may be IDLE now.
            self.wake(|| false);
        }
    }

    /// Wakes the thread in any state: if it is awake, its next sleep ends at once.
    pub fn wake_always(&self) {
        self.wake_up();
        (self.alarm)();
    }
}

/// Returns how long a thread that wakes up by itself sleeps after this number of empty passes in a row.
///
/// The first sleep lasts `min_idle`. Each later sleep lasts twice as long, up to `max_idle`. No sleep is shorter than
/// 50 microseconds.
pub fn sleep_after(empty_passes: u32, min_idle: Duration, max_idle: Duration) -> Duration {
    let doubled = min_idle.saturating_mul(1_u32.checked_shl(empty_passes.saturating_sub(1)).unwrap_or(u32::MAX));
    doubled.clamp(min_idle, max_idle).max(Duration::from_micros(50))
}

#[cfg(all(test, not(any(loom, drainq_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_back_off_doubles_from_the_shortest_to_the_longest_sleep() {
        let ms = Duration::from_millis;
        let sleeps: Vec<_> = (1..9).map(|n| sleep_after(n, ms(1), ms(50))).collect();
        assert_eq!(sleeps, [1, 2, 4, 8, 16, 32, 50, 50].map(ms));
        assert_eq!(sleep_after(40, ms(1), ms(50)), ms(50));
        assert_eq!(sleep_after(3, ms(0), ms(50)), Duration::from_micros(50), "never a busy loop");
    }
}
