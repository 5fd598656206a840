//! New types and new partitions while the queue runs, and its close.
//!
//! Types and partitions are only ever added: a partition keeps its number and a type its partition, so that no
//! producer or drain thread has to stop. One control lock keeps registration, moves and the close apart; producers
//! and drain threads never take it.

use super::control::Control;
use super::item::{Key, Keyed, PartitionId, ThreadId};
use super::partition::Partition;
use super::queue::BatchQueue;
use super::route::TypeRoute;
use crate::ring::RingItem;
use crate::sync::atomic::Ordering;
use crate::sync::planted;

impl<T: RingItem + Keyed> BatchQueue<T> {
    /// Adds a type; returns its key, whose partition is chosen now.
    ///
    /// `weight` is that of the type's handler, the share of a partition that it deserves; 0 for a type without a
    /// handler.
    pub fn add_type(&self, weight: f64) -> Key {
        let control = &mut *self.control.lock();
        control.weights.push(weight);
        if weight > 0.0 {
            // Skipped for a type without a handler, because thousands of these would each sum up all weights.
            self.grow_to(control, self.wanted_partitions(control));
        }
        let partition = control.loads.choose(weight);
        let pinned = self.partitions.pin(partition as usize).expect("a partition chosen is there");
        self.targets.push_with(|_| pinned);
        self.routes.push_with(|_| TypeRoute::new(partition)) as Key
    }

    /// Changes the weight of a type's handler. Partitions may be added; no type changes its partition.
    pub fn set_weight(&self, key: Key, weight: f64) {
        let control = &mut *self.control.lock();
        let old = std::mem::replace(&mut control.weights[key as usize], weight);
        control.loads.add_weight(self.route(key).partition, weight - old);
        self.grow_to(control, self.wanted_partitions(control));
    }

    /// Adds partitions until there are `count`: the number that a forked child takes over from its parent.
    pub fn grow_to_at_least(&self, count: usize) {
        self.grow_to(&mut self.control.lock(), count);
    }

    fn wanted_partitions(&self, control: &Control) -> usize {
        self.settings.partitions.resolve(self.workers.len(), control.weights.iter().sum())
    }

    /// Adds partitions, round robin over the workers, until there are `count`.
    pub(super) fn grow_to(&self, control: &mut Control, count: usize) {
        let before = self.partitions.len();
        for _ in before..count {
            self.partitions.push_with(|index| {
                let owner = (index % self.workers.len()) as ThreadId;
                let partition = Partition::new(self.settings.buffer_size, self.settings.weighed, owner);
                if control.closed && !planted("grow_closed") {
                    partition.ring.close();
                }
                partition
            });
        }
        if count > before {
            control.loads.grow(count);
            if !planted("grow_epoch") {
                self.epoch.fetch_add(1, Ordering::Release);
            }
        }
    }

    /// Refuses every item from now on; returns whether this call was the first to do so.
    ///
    /// Each produce call is either before the close, and its item will be accounted for, or its item is refused.
    pub fn close(&self) -> bool {
        let mut control = self.control.lock();
        let first = !std::mem::replace(&mut control.closed, true);
        for partition in self.partitions.iter() {
            partition.ring.close();
        }
        self.closing.store(true, Ordering::Release);
        drop(control);
        for partition in self.partitions.iter() {
            if !planted("close_notify_producers") {
                partition.room_waiters.notify_all();
            }
        }
        if !planted("close_wait_open") {
            self.close_waiters.notify_all();
        }
        if !planted("close_wake_threads") {
            self.wake_all();
        }
        first
    }

    /// Runs `change` while no other thread changes owners; skips it after the close, when every thread drains every
    /// partition.
    pub(super) fn while_open(&self, change: impl FnOnce()) {
        let control = self.control.lock();
        if !control.closed {
            change();
        }
    }

    /// The partition of a key's items; it never changes.
    pub fn partition_of(&self, key: Key) -> PartitionId {
        self.route(key).partition
    }
}
