//! The whole queue, one operation at a time, against plain lists.
#![cfg(not(any(loom, drainq_shuttle)))]

mod model;

use drainq_core::batch::{PartitionPolicy, Settings};
use model::pool::{self, PoolOp};
use model::{Checked, Op, Producers};
use proptest::prelude::*;

fn op() -> impl Strategy<Value = Op> {
    let leaf = prop_oneof![
        3 => any::<u8>().prop_map(Op::AddType),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(key, weight)| Op::SetWeight(key, weight)),
        12 => any::<u8>().prop_map(Op::Produce),
        6 => (any::<u8>(), any::<u8>()).prop_map(|(key, count)| Op::ProduceMany(key, count)),
        3 => prop::collection::vec(any::<u8>(), 1..5).prop_map(Op::Move),
        1 => Just(Op::Close),
        1 => Just(Op::Cut),
    ];
    let pass = |inside: BoxedStrategy<Op>| {
        let pass = (any::<u8>(), any::<u8>(), prop::collection::vec(inside.clone(), 0..6));
        prop_oneof![3 => inside, 1 => pass.prop_map(|(thread, fails, inside)| Op::Pass(thread, fails, inside))].boxed()
    };
    leaf.boxed().prop_recursive(2, 24, 6, pass)
}

fn pool_op() -> impl Strategy<Value = PoolOp> {
    prop_oneof![
        1 => any::<u8>().prop_map(PoolOp::Add),
        6 => (any::<u8>(), any::<u8>()).prop_map(|(queue, key)| PoolOp::Produce(queue, key)),
        6 => any::<u8>().prop_map(PoolOp::Borrow),
        4 => any::<u8>().prop_map(PoolOp::Work),
        1 => any::<u8>().prop_map(PoolOp::Close),
    ]
}

fn policy() -> impl Strategy<Value = PartitionPolicy> {
    prop_oneof![
        (1_usize..6).prop_map(PartitionPolicy::Fixed),
        (1_usize..3).prop_map(PartitionPolicy::ThreadMultiply),
        (1_usize..4).prop_map(PartitionPolicy::Adaptive),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_thread_of_a_pool_finds_work_where_there_is_some(
        threads in 1_usize..4,
        ops in prop::collection::vec(pool_op(), 0..100),
    ) {
        pool::run(threads, &ops);
    }

    #[test]
    fn agrees_with_plain_lists_after_every_operation(
        threads in 1_usize..4,
        policy in policy(),
        buffer_size in prop_oneof![1_usize..6, 250_usize..600],
        max_batch in prop_oneof![1_usize..4, Just(50)],
        ops in prop::collection::vec(op(), 0..60),
    ) {
        let mut checked = Checked::new(threads, policy, buffer_size, max_batch);
        checked.run(&ops);
        checked.finish();
    }

    #[test]
    fn partitions_that_share_a_capacity_agree_with_plain_lists(
        threads in 1_usize..4,
        policy in policy(),
        buffer_size in prop_oneof![1_usize..6, 250_usize..600],
        capacity in prop_oneof![1_usize..9, 100_usize..1_500],
        max_batch in prop_oneof![1_usize..4, Just(50)],
        producers in prop_oneof![Just(Producers::Lock), Just(Producers::NoLock)],
        ops in prop::collection::vec(op(), 0..60),
    ) {
        let settings = Settings {
            partitions: policy,
            buffer_size,
            capacity: Some(capacity),
            max_batch,
            ..Settings::new(threads)
        };
        let mut checked = Checked::of(settings, producers);
        checked.run(&ops);
        checked.finish();
    }
}
