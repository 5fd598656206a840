//! The owner of a partition, and the handoff to another drain thread.
//!
//! Each partition has one ownership word: its owner, its next owner (the target), and whether a pass runs. Only this
//! word decides who drains. The list of partitions that a drain thread keeps is a hint.
//!
//! A move from thread 0 to thread 1, step by step (`owner -> target, busy`):
//!
//! ```text
//! thread 0 in a pass      0 -> 0  busy
//! revoke                  0 -> 1  busy    thread 0 may end its pass, not start another
//! cycle fence             (the handler call of that pass ends)
//! assign                  1 -> 1  idle    thread 1 may start; thread 0 wakes it
//! ```
//!
//! If no pass runs, [`Ownership::revoke`] assigns at once. No thread waits: the rebalancer writes the new owner into
//! the word as its target, and the thread that ends the pass makes the target the owner. A partition has an owner at
//! every moment.
//!
//! # Invariants
//! 1. `busy` is set by a compare-and-swap from an idle word, only by the owner (after a close, by any thread), and
//!    cleared by the same thread: at most one thread is between [`Ownership::begin`] and [`Ownership::end`].
//! 2. `begin` fails while a move is pending, so an old owner does not start another pass.
//! 3. `end` publishes with `Release`, `begin` reads with `Acquire`: the new owner sees
//!    everything that the old one did in its pass, handler call included.
//! 4. `owner` is a thread number at all times.
//!
//! A new owner must not stay asleep while its new partition holds items. The fence for that is in `wake_new_owner` in
//! `rebalance.rs`.
//!
//! Source: revoke, fence and assign in SkyWalking's `BatchQueue.java`, where the owner is -1
//! between the steps and the rebalancer waits. The ownership word needs neither.

use super::item::ThreadId;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{order, planted};

const BUSY: u64 = 1 << 32;

#[inline]
fn word(owner: ThreadId, target: ThreadId, busy: u64) -> u64 {
    u64::from(owner) | u64::from(target) << 16 | busy
}

#[inline]
fn owner_of(word: u64) -> ThreadId {
    word as ThreadId
}

#[inline]
fn target_of(word: u64) -> ThreadId {
    (word >> 16) as ThreadId
}

/// The effect of [`Ownership::revoke`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// The partition has this owner already, or a pending move gives it this owner.
    Unneeded,
    /// The partition has its new owner, which the caller must wake.
    Done,
    /// A pass runs. The thread that ends it makes the target the owner.
    Pending,
}

/// The right to drain one partition.
pub(crate) struct Ownership(AtomicU64);

impl Ownership {
    /// Makes the word of a partition that `owner` owns.
    pub fn new(owner: ThreadId) -> Self {
        Self(AtomicU64::new(word(owner, owner, 0)))
    }

    /// Returns the thread that may drain the partition, or is doing so.
    #[inline]
    pub fn owner(&self) -> ThreadId {
        owner_of(self.0.load(Ordering::Relaxed))
    }

    /// Whether a pass runs.
    pub fn is_busy(&self) -> bool {
        self.0.load(Ordering::Relaxed) & BUSY != 0
    }

    /// Returns the thread that will have the partition once a pending move is done.
    pub fn target(&self) -> ThreadId {
        target_of(self.0.load(Ordering::Relaxed))
    }

    /// Starts a pass as thread `me`. Returns false if a pass runs, or another thread owns or will own the partition.
    #[inline]
    pub fn begin(&self, me: ThreadId) -> bool {
        if planted("ownership_anybody") {
            return self.begin_any();
        }
        let idle = word(me, me, 0);
        self.0
            .compare_exchange(idle, idle | BUSY, order("ownership_begin", Ordering::Acquire), Ordering::Relaxed)
            .is_ok()
    }

    /// Starts a pass by any thread, if no pass runs. Every thread drains a queue that shuts down.
    pub fn begin_any(&self) -> bool {
        let current = self.0.load(Ordering::Relaxed);
        let take_over = order("ownership_begin", Ordering::Acquire);
        current & BUSY == 0 && self.0.compare_exchange(current, current | BUSY, take_over, Ordering::Relaxed).is_ok()
    }

    /// Ends the pass, which is the cycle fence, and completes a pending move. Returns the new owner, if there was a
    /// move; the caller must wake that thread.
    #[inline]
    pub fn end(&self) -> Option<ThreadId> {
        let mut current = self.0.load(Ordering::Relaxed);
        loop {
            debug_assert!(current & BUSY != 0, "a pass ends that was not begun");
            let target = target_of(current);
            let hand_over = order("ownership_end", Ordering::Release);
            match self.0.compare_exchange_weak(current, word(target, target, 0), hand_over, Ordering::Relaxed) {
                Ok(_) => return (target != owner_of(current)).then_some(target),
                Err(now) => current = now,
            }
        }
    }

    /// Makes `new` the owner: at once if no pass runs, otherwise when the pass ends. A second call before the pass
    /// ends replaces the first.
    pub fn revoke(&self, new: ThreadId) -> Move {
        let mut current = self.0.load(Ordering::Relaxed);
        loop {
            if target_of(current) == new {
                return Move::Unneeded;
            }
            let (wanted, outcome) = if current & BUSY != 0 && !planted("ownership_no_fence") {
                (word(owner_of(current), new, BUSY), Move::Pending)
            } else {
                (word(new, new, 0), Move::Done)
            };
            // Relaxed: a read-modify-write carries on the release sequence of the pass that
            // ended before, so the new owner synchronises with that pass through this one.
            match self.0.compare_exchange_weak(current, wanted, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return outcome,
                Err(now) => current = now,
            }
        }
    }
}

#[cfg(all(test, not(any(loom, drainq_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_move_waits_for_the_pass_and_the_old_owner_starts_no_other() {
        let ownership = Ownership::new(0);
        assert!(ownership.begin(0));
        assert_eq!(ownership.revoke(1), Move::Pending);
        assert!(!ownership.begin(1), "the pass of the old owner is not over");
        assert_eq!(ownership.owner(), 0, "never without an owner");
        assert_eq!(ownership.end(), Some(1));
        assert!(!ownership.begin(0));
        assert!(ownership.begin(1));
        assert_eq!(ownership.end(), None);
        assert_eq!(ownership.revoke(1), Move::Unneeded);
        assert_eq!(ownership.revoke(2), Move::Done);
        assert_eq!(ownership.owner(), 2);
    }

    #[test]
    fn the_last_wish_before_the_fence_wins() {
        let ownership = Ownership::new(0);
        assert!(ownership.begin(0));
        ownership.revoke(1);
        assert_eq!(ownership.revoke(0), Move::Pending, "taken back");
        assert_eq!(ownership.end(), None);
        assert!(ownership.begin(0));
    }
}
