//! The capacity of a whole queue, which its partitions share (`Settings::capacity`). Each partition has its own
//! capacity too.
//!
//! An item takes one *place* of the queue (with weights, as many as it weighs) before it is pushed. A drain thread
//! frees the places of the items that it took. If the producers share a lock, a partition gets several places at once,
//! as *credit*. Its fast path is then open for as many items, at no more cost than in a queue without a capacity.
//!
//! ```text
//! capacity = free + queued + given as credit and not used yet
//! ```
//!
//! This file keeps the places; `produce_within_capacity.rs` takes them for items.
//!
//! # Invariants
//! 1. No more than `capacity` places are taken (see `used_capacity.rs`), so all partitions together hold no more items.
//! 2. Credit ends, under the producers' lock, when the fast path is closed or used up. Unused credit becomes free.
//! 3. A producer that finds no place free takes back all credit before its item is refused, so no item is refused
//!    while a partition has credit. Credit is given only while less than one in [`FAST_SHARE`] places is taken, so
//!    credit is taken back at most once each time a queue fills up.
//! 4. A producer waits for room in the whole queue, whatever its partition: places that become free in one partition
//!    are room for all. It first wakes all drain threads, because any of them may own the items that fill the queue.
//!    Places that become free wake all waiters, because the first waiter may find its own partition full.
//!
//! Source: the credits of network flow control, which a receiver grants in advance so that a sender does not ask for
//! each packet.

use super::partition::FAST_SHARE;
use super::used_capacity::UsedCapacity;
use crate::sync::atomic::AtomicBool;
use crate::sync::{CachePadded, planted};
use crate::wait::waiters::Waiters;

/// Credit takes one in this many of the places that are left for credit, so that many partitions get some.
const CREDIT_SHARE: u64 = 16;

/// The places of a queue, and the producers that wait for one.
pub(super) struct QueueCapacity {
    pub places: CachePadded<UsedCapacity>,
    /// Whether some partition may have credit; read and written under the producers' lock.
    pub credited: AtomicBool,
    /// The producers that wait for room, of all partitions.
    pub room_waiters: Waiters,
}

impl QueueCapacity {
    /// Makes the capacity of an empty queue: all places are free.
    pub fn new(capacity: usize) -> Self {
        Self {
            places: CachePadded::new(UsedCapacity::new(capacity)),
            credited: AtomicBool::new(false),
            room_waiters: Waiters::new(),
        }
    }

    /// Frees places, and wakes all waiters (invariant 4).
    pub fn free(&self, places: u64) {
        if places > 0 {
            self.places.give_back(places);
            if !planted("bound_notify") {
                self.room_waiters.notify_all();
            }
        }
    }

    /// Whether at least one in `share` places is taken.
    #[inline]
    pub fn holds_one_in(&self, share: u64) -> bool {
        self.places.holds_one_in(share)
    }

    /// Takes places as credit; returns how many.
    pub fn credit(&self) -> u64 {
        // A model has few places, and gives all of them.
        let share = if cfg!(any(loom, drainq_shuttle)) { 1 } else { CREDIT_SHARE };
        self.places.admit_up_to((self.places.limit() / FAST_SHARE).saturating_sub(self.places.used()) / share)
    }
}
