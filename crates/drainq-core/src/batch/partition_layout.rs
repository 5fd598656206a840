//! The partitions of a queue and their number, and the types that are routed to them.
//!
//! Types and partitions are only ever added: a partition keeps its number and a type its partition, so that no producer
//! or drain thread has to stop. Registration, moves and the close run under one control lock, which producers and drain
//! threads never take.
//!
//! # Invariants
//! 1. A route, a target and a partition, once added, stay; their tables are read without a lock.
//! 2. The epoch grows after a partition was added or has a new owner. A drain thread that reads the new epoch sees the
//!    change.
//! 3. After the close every partition is closed, including partitions added later.

use super::config::{MAX_PARTITIONS, PartitionPolicy, Settings};
use super::item::{Key, PartitionId, ThreadId};
use super::partition::Partition;
use super::partition_loads::Loads;
use super::type_route::TypeRoute;
use crate::append_only_table::{Pinned, Table};
use crate::ring::RingItem;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{CachePadded, Mutex, order, planted};

/// A rounding error of a sum of weights up to this size adds no partition: ten times 1.1 sums to 11.000000000000002.
const ROUNDING: f64 = 1e-6;
impl PartitionPolicy {
    /// Returns the number of partitions for this number of threads and sum of handler weights; at least one.
    pub fn resolve(self, threads: usize, weight: f64) -> usize {
        let count = match self {
            Self::Fixed(count) => count,
            Self::ThreadMultiply(multiplier) => threads.saturating_mul(multiplier),
            Self::Adaptive(multiplier) => {
                let wanted = (weight - ROUNDING).max(0.0).ceil() as usize;
                let threshold = threads.saturating_mul(multiplier);
                match wanted {
                    0 => threads,
                    _ if wanted <= threshold => wanted,
                    _ => threshold + (wanted - threshold) / 2,
                }
            }
        };
        count.clamp(1, MAX_PARTITIONS)
    }
}

/// Partitions, routes, and the epoch of their assignment to threads.
pub(super) struct Layout<T: RingItem> {
    partitions: Table<Partition<T>>,
    routes: Table<TypeRoute>,
    /// The partition of each key. Producers read nothing else of a route, so the targets lie close together in memory.
    targets: Table<Pinned<Partition<T>>>,
    control: Mutex<Control>,
    epoch: CachePadded<AtomicU64>,
    shape: Shape,
}

/// The rule for the number of partitions, and the settings of a new partition.
struct Shape {
    policy: PartitionPolicy,
    threads: usize,
    buffer_size: usize,
    weighed: bool,
}

/// The state that is changed by registration, moves and the close, under one lock.
#[derive(Default)]
struct Control {
    loads: Loads,
    /// Weight of each key's handler; 0 for a type without a handler.
    weights: Vec<f64>,
    closed: bool,
}

impl<T: RingItem> Layout<T> {
    /// Makes the first `count` partitions of a queue with this number of drain threads.
    pub fn new(settings: &Settings, threads: usize, count: usize) -> Self {
        let Settings { partitions: policy, buffer_size, weighed, .. } = *settings;
        let layout = Self {
            partitions: Table::new(),
            routes: Table::new(),
            targets: Table::new(),
            control: Mutex::new(Control::default()),
            epoch: CachePadded::new(AtomicU64::new(1)),
            shape: Shape { policy, threads, buffer_size, weighed },
        };
        layout.grow_to_at_least(count);
        layout
    }

    /// Returns all partitions, by number.
    #[inline]
    pub fn partitions(&self) -> &Table<Partition<T>> {
        &self.partitions
    }

    /// Returns the partition of this number.
    #[inline]
    pub fn partition(&self, partition: PartitionId) -> &Partition<T> {
        self.partitions.get(partition as usize).expect("a partition number comes from the queue")
    }

    /// Returns the partition of this key's items.
    #[inline]
    pub fn target(&self, key: Key) -> &Partition<T> {
        let target = self.targets.get(key as usize).expect("a key comes from the queue");
        // SAFETY: a target was pinned in this layout's table of partitions.
        unsafe { self.partitions.at(target) }
    }

    /// Returns the routes, by key.
    pub fn routes(&self) -> &Table<TypeRoute> {
        &self.routes
    }

    /// Returns the route of this key.
    #[inline]
    pub fn route(&self, key: Key) -> &TypeRoute {
        self.routes.get(key as usize).expect("a key comes from the queue")
    }

    /// Adds a type whose handler has this weight; returns its key.
    pub fn add_type(&self, weight: f64) -> Key {
        let control = &mut *self.control.lock();
        control.weights.push(weight);
        self.grow(control, self.wanted_partitions(control.loads.total() + weight));
        let partition = control.loads.choose(weight);
        let pinned = self.partitions.pin(partition as usize).expect("a partition chosen is there");
        self.targets.push_with(|_| pinned);
        self.routes.push_with(|_| TypeRoute::new(partition)) as Key
    }

    /// Changes the weight of a type's handler. Partitions may be added. No type changes its partition.
    pub fn set_weight(&self, key: Key, weight: f64) {
        let control = &mut *self.control.lock();
        let old = std::mem::replace(&mut control.weights[key as usize], weight);
        control.loads.add_weight(self.route(key).partition, weight - old);
        self.grow(control, self.wanted_partitions(control.loads.total()));
    }

    /// Adds partitions until there are `count`.
    pub fn grow_to_at_least(&self, count: usize) {
        self.grow(&mut self.control.lock(), count);
    }

    fn wanted_partitions(&self, weight: f64) -> usize {
        self.shape.policy.resolve(self.shape.threads, weight)
    }

    /// Adds partitions, round robin over the threads, until there are `count`.
    fn grow(&self, control: &mut Control, count: usize) {
        let before = self.partitions.len();
        for _ in before..count {
            self.partitions.push_with(|index| {
                let owner = (index % self.shape.threads) as ThreadId;
                let partition = Partition::new(self.shape.buffer_size, self.shape.weighed, owner);
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

    /// Closes all partitions, then runs `and_then`; returns whether this call was the first to do so.
    pub fn close(&self, and_then: impl FnOnce()) -> bool {
        let mut control = self.control.lock();
        let first = !std::mem::replace(&mut control.closed, true);
        for partition in self.partitions.iter() {
            partition.ring.close();
        }
        and_then();
        first
    }

    /// Runs `change` under the control lock, so that no other thread plans moves. Does nothing after the close, when
    /// every thread drains every partition.
    pub fn while_open(&self, change: impl FnOnce()) {
        let control = self.control.lock();
        if !control.closed {
            change();
        }
    }

    /// Reads the epoch (invariant 2).
    pub fn epoch(&self) -> u64 {
        self.epoch.load(order("move_epoch_read", Ordering::Acquire))
    }

    /// Bumps the epoch after a partition has a new owner (invariant 2).
    pub fn bump_epoch(&self) {
        if !planted("move_epoch") {
            self.epoch.fetch_add(1, order("move_epoch_publish", Ordering::Release));
        }
    }
}

#[cfg(all(test, not(any(loom, drainq_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn adaptive_is_one_to_one_up_to_the_threshold_and_half_above() {
        let policy = PartitionPolicy::Adaptive(25);
        let cases = [
            (8, 0.0, 8),
            (8, 1.0, 1),
            (8, 200.0, 200),
            (8, 201.0, 200),
            (8, 500.0, 350),
            (8, 0.3, 1),
            (8, [1.1; 10].iter().sum(), 11),
        ];
        for (threads, weight, expected) in cases {
            assert_eq!(policy.resolve(threads, weight), expected, "{threads} threads, weight {weight}");
        }
        assert_eq!(PartitionPolicy::ThreadMultiply(3).resolve(4, 99.0), 12);
        assert_eq!(PartitionPolicy::Fixed(7).resolve(4, 99.0), 7);
    }
}
