//! Queues on a pool, one step at a time: a thread that asks for work gets some if there is any for it.

use super::Item;
use drainq_core::batch::shared_scheduler::{Loan, Scheduler};
use drainq_core::batch::{BatchQueue, Grouping, Key, Outcome, PartitionPolicy, Settings, Step};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// What may happen to a pool. Numbers are taken modulo what there is.
#[derive(Clone, Debug)]
pub enum PoolOp {
    /// A queue with this many partitions.
    Add(u8),
    /// An item for a partition of a queue.
    Produce(u8, u8),
    /// A thread asks for work, unless it has some.
    Borrow(u8),
    /// A thread makes a pass and gives its loan back.
    Work(u8),
    Close(u8),
}

/// A queue as a number of items for each partition.
struct Known {
    queue: Arc<BatchQueue<Box<Item>>>,
    queued: Vec<u64>,
    produced: u64,
    lent: HashSet<usize>,
    closed: bool,
}

impl Known {
    /// Whether a thread could find work here if the queue may have one more loan.
    fn has_work(&self) -> bool {
        let slots = self.queue.thread_count();
        let free = |partition: usize| !self.lent.contains(&(partition % slots));
        match self.closed {
            false => (0..self.queued.len()).any(|partition| self.queued[partition] > 0 && free(partition)),
            true => self.lent.is_empty() && self.queued.iter().any(|count| *count > 0),
        }
    }
}

/// Runs the operations, checks after each request for work, then drains and ends all queues.
pub fn run(threads: usize, ops: &[PoolOp]) {
    let pool: Scheduler<Box<Item>, usize> = Scheduler::new(threads);
    let mut threads_of_pool: Vec<_> = (0..threads).map(|_| pool.thread()).collect();
    let mut loans: Vec<Option<Loan<'_, Box<Item>, usize>>> = (0..threads).map(|_| None).collect();
    let mut queues: Vec<Known> = Vec::new();
    for op in ops {
        match op {
            PoolOp::Add(partitions) => queues.push(added(&pool, queues.len(), usize::from(partitions % 4) + 1)),
            PoolOp::Produce(at, key) if !queues.is_empty() => {
                let at = usize::from(*at) % queues.len();
                produce(&mut queues[at], *key);
            }
            PoolOp::Borrow(thread) => {
                let thread = usize::from(*thread) % threads;
                if loans[thread].is_none() {
                    loans[thread] = threads_of_pool[thread].try_borrow();
                    note(&mut queues, threads, loans[thread].as_mut());
                }
            }
            PoolOp::Work(thread) => work(&mut queues, loans[usize::from(*thread) % threads].take()),
            PoolOp::Close(at) if !queues.is_empty() => {
                let at = usize::from(*at) % queues.len();
                queues[at].queue.close();
                queues[at].closed = true;
            }
            PoolOp::Produce(..) | PoolOp::Close(_) => {}
        }
    }
    loans.into_iter().for_each(|loan| work(&mut queues, loan));
    for known in &mut queues {
        known.queue.close();
        known.closed = true;
    }
    pool.stop();
    while let Some(loan) = threads_of_pool[0].try_borrow() {
        work(&mut queues, Some(loan));
    }
    for known in &queues {
        assert!(known.queue.is_drained(), "{:?} are left", known.queued);
        assert_eq!(known.queue.snapshot().outcomes().handled, known.produced);
    }
    assert!(threads_of_pool.iter_mut().all(|thread| thread.borrow().is_none()), "every thread may end");
}

fn added(pool: &Scheduler<Box<Item>, usize>, number: usize, partitions: usize) -> Known {
    let mut settings = Settings::new(1);
    settings.partitions = PartitionPolicy::Fixed(partitions);
    (settings.buffer_size, settings.max_batch, settings.min_idle) = (3, 1, Duration::ZERO);
    let queue = Arc::new(BatchQueue::on_pool("pooled", settings, Grouping::ByKey, pool.sleepers()));
    (0..partitions).for_each(|key| assert_eq!(queue.partition_of(queue.add_type(1.0)) as usize, key));
    pool.add(queue.clone(), number);
    Known { queue, queued: vec![0; partitions], produced: 0, lent: HashSet::new(), closed: false }
}

fn produce(known: &mut Known, key: u8) {
    let partition = usize::from(key) % known.queued.len();
    let accepted = known.queue.try_produce(Box::new(Item { key: partition as Key, number: 0 })).is_ok();
    assert_eq!(accepted, !known.closed && known.queued[partition] < 3);
    known.queued[partition] += u64::from(accepted);
    known.produced += u64::from(accepted);
}

/// Checks a request for work: the thread got a slot that no other thread has, or there was no slot to lend.
fn note(queues: &mut [Known], threads: usize, loan: Option<&mut Loan<'_, Box<Item>, usize>>) {
    let open = queues.iter().filter(|known| !known.closed).count();
    let share = if open > 1 { (threads - 1).max(1) } else { threads };
    match loan {
        Some(loan) => {
            let number = *loan.context();
            let known = &mut queues[number];
            assert!(known.lent.insert(loan.slot()), "a slot is lent twice");
            assert!(known.lent.len() <= share, "one queue has {} of {threads} threads", known.lent.len());
        }
        None => {
            // A closed queue counts until its last slot has ended, so the share may be smaller than that of `open`.
            let share = (threads - 1).max(1);
            for known in queues.iter().filter(|known| known.lent.len() < share) {
                assert!(!known.has_work(), "{:?} are queued, slots {:?} lent", known.queued, known.lent);
            }
        }
    }
}

fn work(queues: &mut [Known], loan: Option<Loan<'_, Box<Item>, usize>>) {
    let Some(mut loan) = loan else { return };
    let number = *loan.context();
    let known = &mut queues[number];
    known.lent.remove(&loan.slot());
    let Some(Step::Pass(mut pass)) = loan.step() else { return };
    while let Some(batch) = pass.next_batch() {
        known.queued[batch.key as usize] -= batch.size;
        let size = batch.size;
        assert!(pass.account(batch, &[(Outcome::Handled, size)]));
    }
    drop(pass);
    loan.found();
}
