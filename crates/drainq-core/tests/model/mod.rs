//! A batch queue as plain lists, and a check that the real one agrees after each operation.
//!
//! One thread makes each step of the drainers, so every operation has one right outcome. Operations may come in a pass:
//! moves then stay pending, items come into partitions that are being drained, the queue closes or is cut.

pub mod pool;

use drainq_core::batch::flush::{Flush, Flushed};
use drainq_core::batch::rebalance::Rebalancer;
use drainq_core::batch::{BatchQueue, Drainer, Grouping, Key, Keyed, Outcome, PartitionPolicy, Settings, Step};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// A pass of the queue stops taking once it holds this many times the largest batch.
const PASS: usize = 4;

/// What may happen to a queue. Numbers are taken modulo what there is.
#[derive(Clone, Debug)]
pub enum Op {
    AddType(u8),
    SetWeight(u8, u8),
    Produce(u8),
    ProduceMany(u8, u8),
    /// Gives each partition to the thread whose number is next in the list.
    Move(Vec<u8>),
    /// A thread makes a pass. Batch n fails if bit n modulo 8 of the second number is set. The inner operations
    /// happen after the items were taken and before the first batch.
    Pass(u8, u8, Vec<Op>),
    Close,
    Cut,
}

pub struct Item {
    key: Key,
    number: u64,
}

impl Keyed for Box<Item> {
    fn key(&self) -> Key {
        self.key
    }
}

#[derive(Clone, Debug, Default)]
struct Partition {
    queued: VecDeque<(Key, u64)>,
    owner: u16,
    /// The owner after the pass that is under way.
    target: u16,
    busy: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Type {
    partition: u32,
    accepted: u64,
    handled: u64,
    failed: u64,
}

/// The real queue, and the lists with which it must agree.
pub struct Checked {
    queue: Arc<BatchQueue<Box<Item>>>,
    rebalancer: Rebalancer<Box<Item>>,
    drainers: Vec<Option<Drainer<Box<Item>>>>,
    types: Vec<Type>,
    partitions: Vec<Partition>,
    in_flight: Vec<u64>,
    abandoned: u64,
    next: u64,
    closed: bool,
    cut: bool,
    producers: Producers,
}

/// What the producers share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Producers {
    /// A lock: credit is given and taken back.
    Lock,
    /// Nothing.
    NoLock,
    /// Nothing and a lock in turn; for queues without a capacity that all partitions share.
    Any,
}

impl Checked {
    pub fn new(threads: usize, policy: PartitionPolicy, buffer_size: usize, max_batch: usize) -> Self {
        let settings = Settings { partitions: policy, buffer_size, max_batch, ..Settings::new(threads) };
        Self::of(settings, Producers::Any)
    }

    /// Makes a queue with these settings and producers.
    pub fn of(settings: Settings, producers: Producers) -> Self {
        let queue = Arc::new(BatchQueue::new("model", settings, Grouping::ByKey));
        let threads = queue.thread_count();
        let mut checked = Self {
            rebalancer: Rebalancer::new(queue.clone()),
            drainers: (0..threads).map(|me| Some(Drainer::new(queue.clone(), me as u16))).collect(),
            types: Vec::new(),
            partitions: Vec::new(),
            in_flight: vec![0; threads],
            abandoned: 0,
            next: 0,
            closed: false,
            cut: false,
            producers,
            queue,
        };
        checked.grow();
        checked.check();
        checked
    }

    pub fn run(&mut self, ops: &[Op]) {
        for op in ops {
            self.apply(op);
            self.check();
        }
    }

    /// Drains everything, closes, and checks that nothing is left.
    pub fn finish(mut self) {
        self.run(&[Op::Close]);
        let flush = Flush::of_queue(&self.queue).wait(Duration::ZERO);
        let queued: usize = self.partitions.iter().map(|at| at.queued.len()).sum();
        let known = if self.cut {
            flush != Flushed::NotYet
        } else {
            flush == if queued == 0 { Flushed::All } else { Flushed::NotYet }
        };
        assert!(known, "a flush of {queued} queued items says {flush:?}");
        let most = queued + 1;
        for round in 0..most {
            self.run(&[Op::Pass(round as u8, 0, vec![])]);
        }
        assert!(self.queue.is_drained() && self.queue.is_quiet());
        let flush = Flush::of_queue(&self.queue).wait(Duration::ZERO);
        assert!(self.cut || flush == Flushed::All, "a flush of a drained queue says {flush:?}");
        assert!(self.drainers.iter().flatten().all(Drainer::is_finished));
    }

    fn grow(&mut self) {
        let threads = self.drainers.len();
        for index in self.partitions.len()..self.queue.partition_count() {
            let owner = (index % threads) as u16;
            self.partitions.push(Partition { owner, target: owner, ..Partition::default() });
        }
    }

    fn key(&self, number: u8) -> Option<Key> {
        (!self.types.is_empty()).then(|| u32::from(number) % self.types.len() as u32)
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::AddType(weight) => {
                let key = self.queue.add_type(f64::from(weight % 4));
                assert_eq!(key as usize, self.types.len());
                self.types.push(Type { partition: self.queue.partition_of(key), ..Type::default() });
                self.grow();
            }
            Op::SetWeight(key, weight) => {
                if let Some(key) = self.key(*key) {
                    self.queue.set_weight(key, f64::from(weight % 4));
                    self.grow();
                }
            }
            Op::Produce(key) => self.produce(*key, 1),
            Op::ProduceMany(key, count) => self.produce(*key, usize::from(*count)),
            Op::Move(plan) => self.carry_out(plan),
            Op::Pass(thread, fails, inside) => {
                self.pass(usize::from(*thread) % self.drainers.len(), *fails, inside);
            }
            Op::Close => {
                assert_eq!(self.queue.close(), !self.closed, "only the first close says so");
                self.closed = true;
            }
            Op::Cut => {
                let expected: Vec<u64> =
                    self.partitions.iter_mut().flat_map(|at| at.queued.drain(..)).map(|item| item.1).collect();
                let in_flight: u64 = self.in_flight.iter_mut().map(std::mem::take).sum();
                let cut = self.queue.cut();
                assert!(cut.items.iter().map(|item| item.number).eq(expected.iter().copied()));
                assert_eq!(cut.abandoned, expected.len() as u64 + in_flight);
                self.abandoned += cut.abandoned;
                (self.closed, self.cut) = (true, true);
            }
        }
    }

    fn produce(&mut self, key: u8, count: usize) {
        let Some(key) = self.key(key) else { return };
        let queued: usize = self.partitions.iter().map(|at| at.queued.len()).sum();
        let known = &mut self.types[key as usize];
        let partition = &mut self.partitions[known.partition as usize];
        let settings = self.queue.settings();
        let room = (settings.buffer_size - partition.queued.len())
            .min(settings.capacity.map_or(usize::MAX, |all| all - queued));
        let room = if self.closed { 0 } else { room };
        let numbers = self.next..self.next + count as u64;
        self.next += count as u64;
        let mut items = numbers.clone().map(|number| Box::new(Item { key, number })).collect::<Vec<_>>().into_iter();
        // One thread makes all calls, as if under a lock, so either way is right.
        let locked = match self.producers {
            Producers::Any => numbers.start % 2 == 1,
            producers => producers == Producers::Lock,
        };
        let accepted = match (locked, count) {
            (false, 1) => usize::from(self.queue.try_produce(items.next().expect("one item")).is_ok()),
            (false, _) => self.queue.try_produce_many(known.partition, &mut items).0,
            (true, _) => produce_serialised(&self.queue, known.partition, &mut items),
        };
        assert_eq!(accepted, count.min(room));
        known.accepted += accepted as u64;
        partition.queued.extend(numbers.take(accepted).map(|number| (key, number)));
    }

    fn carry_out(&mut self, plan: &[u8]) {
        if plan.is_empty() {
            return;
        }
        let threads = self.drainers.len();
        let plan: Vec<u16> =
            (0..self.partitions.len()).map(|p| u16::from(plan[p % plan.len()]) % threads as u16).collect();
        let mut moves = 0;
        if !self.closed {
            for (at, new) in self.partitions.iter_mut().zip(&plan) {
                moves += usize::from(at.target != *new);
                at.target = *new;
                if !at.busy {
                    at.owner = *new;
                }
            }
        }
        assert_eq!(self.rebalancer.carry_out(&plan), moves);
    }

    fn pass(&mut self, me: usize, fails: u8, inside: &[Op]) {
        // A thread makes one pass at a time.
        let Some(mut drainer) = self.drainers[me].take() else { return };
        let before = self.queue.snapshot().used;
        let mine: Vec<usize> = (0..self.partitions.len())
            .filter(|p| !self.partitions[*p].busy && (self.closed || self.partitions[*p].owner == me as u16))
            .collect();
        let max_batch = self.queue.settings().max_batch;
        if let Step::Pass(mut pass) = drainer.try_step() {
            assert!(!self.cut, "nobody takes after the cut");
            let after = self.queue.snapshot().used;
            let mut taken = Vec::new();
            let mut left_over = false;
            for p in 0..before.len() {
                let count = before[p] - after[p];
                assert!(count == 0 || mine.contains(&p), "thread {me} took from partition {p}");
                assert!(count <= max_batch);
                left_over |= mine.contains(&p) && count < before[p].min(max_batch);
                taken.extend(self.partitions[p].queued.drain(..count));
                self.partitions[p].busy |= count > 0;
            }
            let busy: Vec<usize> = (0..before.len()).filter(|p| before[*p] > after[*p]).collect();
            assert!(!left_over || taken.len() >= PASS * max_batch, "a pass takes what there is, up to its limit");
            self.in_flight[me] = taken.len() as u64;
            self.check();
            self.run(inside);
            let mut number = 0;
            while let Some(batch) = pass.next_batch() {
                assert!(!batch.items.is_empty() && batch.items.len() <= max_batch);
                for item in &batch.items {
                    let place = taken.iter().position(|(key, _)| *key == item.key).expect("an item that was taken");
                    assert_eq!((item.key, taken.remove(place)), (batch.key, (item.key, item.number)), "in order");
                }
                let size = batch.size;
                let key = batch.key as usize;
                let fail = fails >> (number % 8) & 1 == 1;
                let outcome = if fail { Outcome::Failed } else { Outcome::Handled };
                let counted = pass.account(batch, &[(outcome, size)]);
                assert_eq!(counted, !self.cut);
                if !counted {
                    break;
                }
                let known = &mut self.types[key];
                *(if fail { &mut known.failed } else { &mut known.handled }) += size;
                self.in_flight[me] -= size;
                number += 1;
            }
            assert!(self.cut || taken.is_empty(), "everything taken was handed out");
            drop(pass);
            for p in busy {
                let at = &mut self.partitions[p];
                (at.busy, at.owner) = (false, at.target);
            }
        } else {
            let waiting: usize = mine.iter().map(|p| before[*p]).sum();
            assert!(waiting == 0 || self.cut, "thread {me} left {waiting} items of {mine:?}");
        }
        self.drainers[me] = Some(drainer);
    }

    /// Asserts that the real queue agrees with the lists.
    fn check(&self) {
        let now = self.queue.snapshot();
        let used: Vec<usize> = self.partitions.iter().map(|at| at.queued.len()).collect();
        let owners: Vec<u16> = self.partitions.iter().map(|at| at.owner).collect();
        assert_eq!((&now.used, &now.owners), (&used, &owners));
        let in_flight: u64 = self.in_flight.iter().sum();
        assert_eq!(now.queued, used.iter().sum::<usize>() as u64 + in_flight);
        let sum = |counter: fn(&Type) -> u64| self.types.iter().map(counter).sum::<u64>();
        let (accepted, handled, failed) = (sum(|at| at.accepted), sum(|at| at.handled), sum(|at| at.failed));
        assert_eq!((now.accepted, now.abandoned), (accepted, self.abandoned));
        assert_eq!((now.outcomes().handled, now.outcomes().failed), (handled, failed));
        assert_eq!(now.accepted, handled + failed + now.abandoned + now.queued, "every item in one place");
        for (key, (real, known)) in now.types.iter().zip(&self.types).enumerate() {
            assert_eq!(self.queue.partition_of(key as Key), known.partition, "a route never changes");
            let real = (real.accepted, real.outcomes.handled, real.outcomes.failed);
            assert_eq!(real, (known.accepted, known.handled, known.failed), "type {key}");
        }
        assert_eq!(self.queue.is_running(), !self.closed);
        assert_eq!(self.queue.is_cut(), self.cut);
    }
}

/// Produces as under a lock: by the fast path as long as it is open, then by the slow path, and so on.
fn produce_serialised(
    queue: &BatchQueue<Box<Item>>,
    partition: u32,
    items: &mut std::vec::IntoIter<Box<Item>>,
) -> usize {
    let (at, mut accepted) = (queue.partition(partition), 0);
    // SAFETY: one thread.
    unsafe {
        loop {
            accepted += at.push_fast_while(|| items.next());
            let Some(item) = items.next() else { return accepted };
            let bulk = item.number % 3 == 0;
            if queue.try_produce_serialised(partition, item).is_err() {
                return accepted;
            }
            accepted += 1;
            if bulk {
                accepted += queue.try_produce_many_serialised(partition, items).0;
            }
        }
    }
}
