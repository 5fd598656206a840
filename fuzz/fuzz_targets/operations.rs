//! Bytes as operations on a batch queue, checked against plain lists after each one.
//!
//! Run by `scripts/fuzz.sh`; the model is that of the property test.
#![no_main]

#[path = "../../crates/drainq-core/tests/model/mod.rs"]
mod model;

use arbitrary::{Arbitrary, Result, Unstructured};
use drainq_core::batch::PartitionPolicy;
use libfuzzer_sys::fuzz_target;
use model::pool::{self, PoolOp};
use model::{Checked, Op};

#[derive(Arbitrary, Debug)]
enum Step {
    AddType(u8),
    SetWeight(u8, u8),
    Produce(u8),
    ProduceMany(u8, u8),
    Move(u8, u8),
    Pass(u8, u8, u8),
    Close,
    Cut,
}

/// Reads operations until the bytes end; a pass takes the next few inside, two levels deep.
fn operations(bytes: &mut Unstructured<'_>, most: usize, depth: usize) -> Result<Vec<Op>> {
    let mut ops = Vec::new();
    while ops.len() < most && !bytes.is_empty() {
        ops.push(match Step::arbitrary(bytes)? {
            Step::AddType(weight) => Op::AddType(weight),
            Step::SetWeight(key, weight) => Op::SetWeight(key, weight),
            Step::Produce(key) => Op::Produce(key),
            Step::ProduceMany(key, count) => Op::ProduceMany(key, count),
            Step::Move(first, second) => Op::Move(vec![first, second]),
            Step::Pass(thread, fails, inside) if depth > 0 => {
                Op::Pass(thread, fails, operations(bytes, usize::from(inside % 6), depth - 1)?)
            }
            Step::Pass(thread, fails, _) => Op::Pass(thread, fails, Vec::new()),
            Step::Close => Op::Close,
            Step::Cut => Op::Cut,
        });
    }
    Ok(ops)
}

#[derive(Arbitrary, Debug)]
enum PoolStep {
    Add(u8),
    Produce(u8, u8),
    Borrow(u8),
    Work(u8),
    Close(u8),
}

/// Operations on queues that share their threads.
fn pool_operations(bytes: &mut Unstructured<'_>) -> Result<Vec<PoolOp>> {
    let mut ops = Vec::new();
    while ops.len() < 500 && !bytes.is_empty() {
        ops.push(match PoolStep::arbitrary(bytes)? {
            PoolStep::Add(partitions) => PoolOp::Add(partitions),
            PoolStep::Produce(queue, key) => PoolOp::Produce(queue, key),
            PoolStep::Borrow(thread) => PoolOp::Borrow(thread),
            PoolStep::Work(thread) => PoolOp::Work(thread),
            PoolStep::Close(queue) => PoolOp::Close(queue),
        });
    }
    Ok(ops)
}

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Unstructured::new(bytes);
    let mut shape = || u8::arbitrary(&mut bytes).unwrap_or(0);
    let (pooled, threads) = (shape() % 3 == 2, shape() % 3);
    if pooled {
        if let Ok(ops) = pool_operations(&mut bytes) {
            pool::run(usize::from(threads) + 1, &ops);
        }
        return;
    }
    let (partitions, buffer_size, max_batch) = (shape(), shape(), shape());
    let count = usize::from(partitions / 2 % 5) + 1;
    let policy = if partitions % 2 == 0 { PartitionPolicy::Fixed(count) } else { PartitionPolicy::Adaptive(count) };
    // Around a segment border as often as tiny.
    let buffer_size = if buffer_size < 128 { usize::from(buffer_size % 8) + 1 } else { usize::from(buffer_size) * 2 };
    if let Ok(ops) = operations(&mut bytes, 500, 2) {
        let mut checked = Checked::new(usize::from(threads) + 1, policy, buffer_size, usize::from(max_batch % 60) + 1);
        checked.run(&ops);
        checked.finish();
    }
});
