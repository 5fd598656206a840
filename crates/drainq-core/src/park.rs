//! How a drain thread goes to sleep without missing an item, and how a producer wakes it.
//!
//! A thread that found nothing first naps for a short fixed time, from which only a full or
//! half-full partition wakes it: so batches form, and a steady trickle costs no more than
//! one wake-up per nap. If there is still nothing it falls idle, and the next item wakes it
//! at once.
//!
//! # Invariants
//! 1. A sleeper sets its state, then runs a SeqCst fence, then looks at its partitions once
//!    more. A producer publishes, then runs a SeqCst fence, then reads the state. So either
//!    the sleeper sees the item or the producer sees the sleeper: no wake-up is lost.
//!    Producers that one lock keeps apart need no fence: there the sleeper takes the lock and
//!    gives it back between the two steps (`settle`). A produce call that held the lock
//!    before is seen by the second look; one that holds it after sees the state.
//! 2. The state leaves `NAP` and `IDLE` by a compare-and-swap; its winner alone unparks, so
//!    a thousand producers make one wake-up.
//! 3. The unparker leaves a token: a wake-up between the second look and the park ends the
//!    park at once.
//!
//! Source: Dekker's argument as in the event counts of folly and crossbeam-channel; a locked
//! instruction in the fence's place as in crossbeam-epoch; the nap is the first step of
//! SkyWalking's idle back-off.

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Parker, full_fence, planted};
use std::time::Duration;

const AWAKE: u32 = 0;
const NAP: u32 = 1;
const IDLE: u32 = 2;

/// The fence of a producer, between publishing and looking for sleepers.
#[inline]
pub fn producer_fence() {
    full_fence("wake_producer_fence");
}

/// The [`producer_fence`] of a producer that has just claimed its place by a SeqCst
/// compare-and-swap on the word that sleepers look at.
///
/// The claim, not the item, is what the sleeper's second look must not miss: it waits for an
/// item that was claimed. On x86 the locked instruction is a full barrier itself, and SeqCst
/// keeps the compiler from moving anything over it; elsewhere there is a fence.
#[inline]
pub fn fence_after_swap() {
    if !cfg!(all(target_arch = "x86_64", not(any(loom, drainq_shuttle)))) {
        full_fence("claim_fence");
    }
}

/// The fence of a sleeper, between saying so and its second look.
#[inline]
fn sleeper_fence() {
    full_fence("wake_sleeper_fence");
}

/// What a sleeper may be woken by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// A partition that is half full or full, or a call from the queue itself.
    Nap,
    /// Any item.
    Idle,
}

/// What a wake-up does: unparks a thread, or tells a pool that there is work.
pub type Alarm = Box<dyn Fn() + Send + Sync>;

/// The state of one thread, or of one slot of a pool, that sleeps when it has nothing to do.
pub struct Sleeper {
    state: AtomicU32,
    alarm: Alarm,
}

impl Sleeper {
    /// A sleeper that is awake and is woken by `alarm`.
    pub fn new(alarm: Alarm) -> Self {
        Self { state: AtomicU32::new(AWAKE), alarm }
    }

    /// A sleeper for a thread of its own, and the end on which that thread parks.
    pub fn of_thread() -> (Self, Parker) {
        let parker = Parker::new();
        let unparker = parker.unparker().clone();
        (Self::new(Box::new(move || unparker.unpark())), parker)
    }

    /// Says that the thread is about to sleep, then takes the second look: if `work` finds
    /// something the thread is awake again, and this is false.
    ///
    /// Before the look `settle` is called: it takes the producers' lock and gives it back, if
    /// they have one (invariant 1). A short nap ends by itself, and may do without.
    pub fn fall_asleep(&self, depth: Depth, settle: impl FnOnce(), work: impl FnOnce() -> bool) -> bool {
        self.state.store(if depth == Depth::Nap { NAP } else { IDLE }, Ordering::Relaxed);
        sleeper_fence();
        if !planted("wake_settle") {
            settle();
        }
        let asleep = planted("wake_second_look") || !work();
        if !asleep {
            self.wake_up();
        }
        asleep
    }

    /// Says that the thread is awake.
    pub fn wake_up(&self) {
        self.state.store(AWAKE, Ordering::Relaxed);
    }

    /// Sleeps on `parker` until woken or until `timeout` is over, unless `work` finds
    /// something on the second look.
    pub fn sleep(
        &self,
        parker: &Parker,
        (depth, timeout): (Depth, Option<Duration>),
        settle: impl FnOnce(),
        work: impl FnOnce() -> bool,
    ) {
        if self.fall_asleep(depth, settle, work) {
            match timeout {
                Some(timeout) => parker.park_timeout(timeout),
                None => parker.park(),
            }
            self.wake_up();
        }
    }

    /// Wakes the thread if it is idle, or if it naps and `urgent` says so. To be called
    /// after [`producer_fence`], or within the producers' lock.
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
            // It napped when we looked and may be idle now.
            self.wake(|| false);
        }
    }

    /// Wakes the thread whatever it does: its next sleep ends at once.
    pub fn wake_always(&self) {
        self.wake_up();
        (self.alarm)();
    }
}

/// The idle back-off: how deep and how long to sleep after so many passes without an item.
///
/// The first sleep is the nap of `min_idle`. Later ones double up to `max_idle`, and end
/// with the first item. With `watched` false nobody needs to be called while nothing
/// happens, and the thread sleeps until it is woken.
pub fn sleep_after(
    empty_passes: u32,
    min_idle: Duration,
    max_idle: Duration,
    watched: bool,
) -> (Depth, Option<Duration>) {
    if empty_passes <= 1 && !min_idle.is_zero() {
        return (Depth::Nap, Some(min_idle));
    }
    let doubled = min_idle.saturating_mul(1_u32.checked_shl(empty_passes.saturating_sub(1)).unwrap_or(u32::MAX));
    (Depth::Idle, watched.then_some(doubled.clamp(min_idle, max_idle).max(Duration::from_micros(50))))
}

#[cfg(all(test, not(any(loom, drainq_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_back_off_doubles_from_the_shortest_to_the_longest_sleep() {
        let ms = Duration::from_millis;
        let sleeps: Vec<_> = (1..9).map(|n| sleep_after(n, ms(1), ms(50), true)).collect();
        let expected = [1, 2, 4, 8, 16, 32, 50, 50].map(|n| Some(ms(n)));
        assert!(sleeps.iter().map(|(_, time)| *time).eq(expected));
        assert!(sleeps[1..].iter().all(|(depth, _)| *depth == Depth::Idle));
        assert_eq!(sleeps[0].0, Depth::Nap);
    }

    #[test]
    fn unwatched_the_thread_sleeps_until_it_is_woken() {
        let ms = Duration::from_millis;
        assert_eq!(sleep_after(1, ms(1), ms(50), false), (Depth::Nap, Some(ms(1))));
        assert_eq!(sleep_after(40, ms(1), ms(50), false), (Depth::Idle, None));
        assert_eq!(sleep_after(1, ms(0), ms(50), false), (Depth::Idle, None));
    }
}
