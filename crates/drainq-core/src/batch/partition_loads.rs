//! The load of each partition. A new type is routed to the partition with the least load.
//!
//! # Invariants
//! 1. The load of a partition is the sum of the weights of the types routed to it. The total is the sum of all loads.
//! 2. `in_order` holds each partition once, with the load that `by_partition` has for it. So the number of steps to
//!    find the least load grows with the logarithm of the number of partitions.

use super::item::PartitionId;
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// A partition's place in the order: less load first, then fewer types, then the lower number.
#[derive(Clone, Copy)]
struct Load {
    weight: f64,
    types: u32,
    partition: PartitionId,
}

impl Ord for Load {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_weight = self.weight.total_cmp(&other.weight);
        by_weight.then(self.types.cmp(&other.types)).then(self.partition.cmp(&other.partition))
    }
}

impl PartialOrd for Load {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Load {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Load {}

/// The load of each partition, and how many types are routed to it.
#[derive(Default)]
pub(super) struct Loads {
    by_partition: Vec<Load>,
    in_order: BTreeSet<Load>,
    total: f64,
}

impl Loads {
    /// Adds partitions without load until there are `partitions`.
    pub fn grow(&mut self, partitions: usize) {
        for partition in self.by_partition.len()..partitions {
            let load = Load { weight: 0.0, types: 0, partition: partition as PartitionId };
            self.by_partition.push(load);
            self.in_order.insert(load);
        }
    }

    /// Returns the sum of all weights, up to the rounding of floating-point sums.
    pub fn total(&self) -> f64 {
        self.total
    }

    /// Routes a new type to the partition with the least load, then the fewest types.
    pub fn choose(&mut self, weight: f64) -> PartitionId {
        let partition = self.in_order.first().expect("a queue has a partition").partition;
        self.change(partition, weight, 1);
        partition
    }

    /// Changes the weight of a type that is routed to `partition`.
    pub fn add_weight(&mut self, partition: PartitionId, change: f64) {
        self.change(partition, change, 0);
    }

    fn change(&mut self, partition: PartitionId, weight: f64, types: u32) {
        let load = &mut self.by_partition[partition as usize];
        self.in_order.remove(load);
        load.weight += weight;
        load.types += types;
        self.in_order.insert(*load);
        self.total += weight;
    }
}

#[cfg(all(test, not(any(loom, drainq_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_type_goes_to_the_least_load_then_to_the_fewest_types_then_to_the_lowest_number() {
        let mut loads = Loads::default();
        loads.grow(3);
        assert_eq!([0.0, 0.0, 0.0, 0.0].map(|weight| loads.choose(weight)), [0, 1, 2, 0]);
        assert_eq!(loads.choose(2.0), 1, "as much load as 2, and as few types");
        assert_eq!(loads.choose(1.0), 2);
        loads.add_weight(1, -2.0);
        assert_eq!(loads.choose(0.0), 0, "no load like 1, and two types like 1");
        loads.grow(4);
        assert_eq!(loads.choose(0.5), 3);
        assert_eq!(loads.total(), 1.5);
    }

    #[test]
    fn the_order_agrees_with_a_search_through_all_loads() {
        let mut loads = Loads::default();
        loads.grow(17);
        for step in 0..2_000_u32 {
            let plain = loads.by_partition.iter().min_by(|a, b| {
                a.weight.total_cmp(&b.weight).then(a.types.cmp(&b.types)).then(a.partition.cmp(&b.partition))
            });
            let expected = plain.map(|load| load.partition);
            assert_eq!(Some(loads.choose(f64::from(step * 7 % 5))), expected);
            loads.add_weight(step * 11 % 17, f64::from(step * 3 % 4) - 1.5);
            assert_eq!(loads.in_order.len(), 17, "each partition once");
        }
    }
}
