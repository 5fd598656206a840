//! Plans which thread should own which partition, from the throughput of each partition.
//!
//! A plan is a pure function of counters. `rebalance.rs` carries it out.
//!
//! Source: `ThroughputWeightedBalancer` in SkyWalking (longest processing time first, the skip threshold). Added here:
//! threads are renamed so that a new plan moves as little as it can, and a plan that would not lower the highest
//! throughput is dropped.

use super::item::ThreadId;

/// Threads are balanced enough while the highest throughput of a thread is below this many times the lowest.
pub const SKIP_BELOW: f64 = 1.15;
/// A plan must lower the highest throughput of a thread to at most this share of its value.
const WORTH_IT: f64 = 0.95;

/// Decides which thread owns which partition.
pub trait Balancer: Send + Sync {
    /// Returns the new owner of each partition, or `None` to leave all as it is.
    ///
    /// `throughput[p]` is what partition `p` accepted since the last call, `owners[p]` the thread that owns it, a
    /// number below `threads`.
    fn assign(&self, throughput: &[u64], owners: &[ThreadId], threads: usize) -> Option<Vec<ThreadId>>;
}

/// Gives the partition with the most throughput to the thread with the least, and so on.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThroughputWeighted;

impl Balancer for ThroughputWeighted {
    fn assign(&self, throughput: &[u64], owners: &[ThreadId], threads: usize) -> Option<Vec<ThreadId>> {
        let now = throughput_by_thread(throughput, owners, threads);
        let highest = *now.iter().max()?;
        let lowest = *now.iter().min()?;
        if highest == 0 || (highest as f64) < SKIP_BELOW * lowest as f64 {
            return None;
        }
        let plan = rename_to_stay(throughput, owners, &longest_first(throughput, owners, threads), threads);
        let planned = *throughput_by_thread(throughput, &plan, threads).iter().max()?;
        (planned as f64 <= WORTH_IT * highest as f64 && plan != owners).then_some(plan)
    }
}

/// Returns each thread's throughput, summed over its partitions.
pub fn throughput_by_thread(throughput: &[u64], owners: &[ThreadId], threads: usize) -> Vec<u64> {
    let mut loads = vec![0; threads];
    for (load, owner) in throughput.iter().zip(owners) {
        loads[usize::from(*owner)] += load;
    }
    loads
}

/// Makes the greedy plan; partitions without throughput stay where they are.
fn longest_first(throughput: &[u64], owners: &[ThreadId], threads: usize) -> Vec<ThreadId> {
    let mut busy: Vec<usize> = (0..throughput.len()).filter(|p| throughput[*p] > 0).collect();
    busy.sort_by_key(|p| std::cmp::Reverse(throughput[*p]));
    let mut load = vec![0; threads];
    let mut plan = owners.to_vec();
    for partition in busy {
        let least = (0..threads).min_by_key(|thread| load[*thread]).expect("there is a thread");
        load[least] += throughput[partition];
        plan[partition] = least as ThreadId;
    }
    plan
}

/// Renames the threads of a plan, so that each partition with throughput stays where it is if possible.
fn rename_to_stay(throughput: &[u64], owners: &[ThreadId], plan: &[ThreadId], threads: usize) -> Vec<ThreadId> {
    let mut shared = vec![vec![0_u64; threads]; threads];
    for partition in (0..plan.len()).filter(|p| throughput[*p] > 0) {
        shared[usize::from(plan[partition])][usize::from(owners[partition])] += throughput[partition];
    }
    let mut pairs: Vec<(u64, usize, usize)> =
        (0..threads * threads).map(|n| (shared[n / threads][n % threads], n / threads, n % threads)).collect();
    pairs.sort_by_key(|pair| std::cmp::Reverse(pair.0));
    let mut name = vec![None; threads];
    let mut taken = vec![false; threads];
    for (_, group, thread) in pairs {
        if name[group].is_none() && !taken[thread] {
            name[group] = Some(thread as ThreadId);
            taken[thread] = true;
        }
    }
    (0..plan.len())
        .map(|p| if throughput[p] > 0 { name[usize::from(plan[p])].expect("all are named") } else { owners[p] })
        .collect()
}

#[cfg(all(test, not(any(loom, drainq_shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plan(throughput: &[u64], owners: &[ThreadId], threads: usize) -> Option<Vec<ThreadId>> {
        ThroughputWeighted.assign(throughput, owners, threads)
    }

    #[test]
    fn balanced_or_idle_queues_are_left_alone() {
        assert_eq!(plan(&[100, 110], &[0, 1], 2), None);
        assert_eq!(plan(&[0, 0, 0], &[0, 0, 0], 2), None);
        assert_eq!(plan(&[5, 5], &[0, 0], 1), None, "one thread has nowhere to move to");
    }

    #[test]
    fn one_hot_partition_that_cannot_be_split_causes_no_moves() {
        assert_eq!(plan(&[1000, 1, 1], &[0, 1, 1], 2), None);
    }

    #[test]
    fn skewed_load_is_spread_and_quiet_partitions_stay() {
        let throughput = [24, 24, 8, 8, 4, 4, 1, 1, 0];
        let plan = plan(&throughput, &[0, 0, 0, 0, 1, 1, 1, 1, 0], 2).unwrap();
        assert_eq!(throughput_by_thread(&throughput, &plan, 2), [37, 37]);
        assert_eq!(plan[8], 0);
    }

    #[test]
    fn a_small_shift_moves_little() {
        let throughput: Vec<u64> = (0..40).map(|p| if p < 4 { 130 } else { 100 }).collect();
        let owners: Vec<ThreadId> = (0..40).map(|p| if p < 24 { 0 } else { 1 }).collect();
        let plan = plan(&throughput, &owners, 2).unwrap();
        let moved = plan.iter().zip(&owners).filter(|(new, old)| new != old).count();
        assert!(moved <= 24, "{moved} of 40 moved");
    }

    proptest! {
        #[test]
        fn a_plan_keeps_every_partition_and_lowers_the_highest_load(
            partitions in prop::collection::vec((0_u64..1000, 0_u16..4), 1..60),
        ) {
            let (throughput, owners): (Vec<u64>, Vec<ThreadId>) = partitions.into_iter().unzip();
            if let Some(plan) = plan(&throughput, &owners, 4) {
                prop_assert_eq!(plan.len(), owners.len());
                prop_assert!(plan.iter().all(|owner| *owner < 4));
                let (old, new) = (throughput_by_thread(&throughput, &owners, 4), throughput_by_thread(&throughput, &plan, 4));
                prop_assert!(new.iter().max() < old.iter().max());
                for p in 0..owners.len() {
                    prop_assert!(throughput[p] > 0 || plan[p] == owners[p]);
                }
            }
        }
    }
}
