//! Queues that drain themselves, behind one face, and the load that is put on them.
//!
//! The rivals get the drain loop of the source design: each thread empties the partitions that are its own into one
//! list, sorts it by type, calls one handler a type, and sleeps 1 ms, then 2, up to 50, while there is nothing. Their
//! producers yield while a partition is full.

use crate::item::{Item, work};
use crate::machine::process_cpu_nanos;
use crate::rivals::Buffer;
use drainq_core::batch::running::Running;
use drainq_core::batch::{BatchQueue, Grouping, Key, Keyed, PartitionPolicy, Settings};
use drainq_core::ring::Refusal;
use drainq_core::sync::CachePadded;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Items that one handler call gets at most.
const MAX_BATCH: usize = 8_192;
const MIN_IDLE: Duration = Duration::from_millis(1);
const MAX_IDLE: Duration = Duration::from_millis(50);

/// A queue under load.
pub trait Engine: Sync {
    /// Queues an item, waiting for room.
    fn produce(&self, item: Item);
}

/// How a queue is laid out.
#[derive(Clone, Copy)]
pub struct Shape {
    pub threads: usize,
    pub types: usize,
    pub capacity: usize,
}

/// Where all batches end: does the work and says when the last item is through.
pub struct Sink {
    left: AtomicUsize,
    per_batch: usize,
    per_item: usize,
    done: Sender<(Instant, f64)>,
}

impl Sink {
    /// A sink that expects so many items, with so many multiply-adds a batch and an item.
    pub fn new(items: usize, per_batch: usize, per_item: usize) -> (Arc<Self>, Receiver<(Instant, f64)>) {
        let (done, end) = channel();
        (Arc::new(Self { left: AtomicUsize::new(items), per_batch, per_item, done }), end)
    }

    /// Handles a batch.
    pub fn handle(&self, batch: &[Item]) {
        black_box(work(self.per_batch, batch.len()));
        for item in batch {
            black_box(work(self.per_item, item.number()));
        }
        if self.left.fetch_sub(batch.len(), Ordering::AcqRel) == batch.len() {
            self.done.send((Instant::now(), process_cpu_nanos())).expect("the one who waits is there");
        }
    }
}

/// drainq, with a thread a worker.
pub struct Drainq(pub Running<Item>);

impl Drainq {
    pub fn start(shape: Shape, sink: &Arc<Sink>) -> Self {
        let mut settings = Settings::new(shape.threads);
        settings.partitions = PartitionPolicy::Adaptive(25);
        settings.buffer_size = shape.capacity;
        settings.max_batch = MAX_BATCH;
        let running = Running::start(BatchQueue::new("bench", settings, Grouping::ByKey));
        for number in 0..shape.types {
            let sink = sink.clone();
            let key = running.add_handler(1.0, move |batch: &mut Vec<Item>| sink.handle(batch));
            assert_eq!(key as usize, number, "keys count up");
        }
        Self(running)
    }
}

impl Engine for Drainq {
    #[inline]
    fn produce(&self, item: Item) {
        let queue = self.0.queue();
        if let Err((item, refusal)) = queue.try_produce(item) {
            assert_eq!(refusal, Refusal::Full, "nobody closes the queue under load");
            wait_and_produce(queue, item);
        }
    }
}

#[cold]
fn wait_and_produce(queue: &BatchQueue<Item>, mut item: Item) {
    let partition = queue.partition_of(item.key());
    let mut waiter = queue.wait_for_room(partition);
    while let Err((back, _)) = queue.produce_within(partition, item, &mut waiter, Duration::from_secs(1)) {
        item = back;
    }
    waiter.served();
}

impl Drop for Drainq {
    fn drop(&mut self) {
        self.0.shutdown();
    }
}

/// A partition a type, drained in the way of the source design.
pub struct Partitioned<B: Buffer + Send + Sync + 'static> {
    shared: Arc<(Vec<CachePadded<B>>, AtomicBool)>,
    threads: Vec<JoinHandle<()>>,
}

impl<B: Buffer + Send + Sync + 'static> Partitioned<B> {
    pub fn start(shape: Shape, sink: &Arc<Sink>) -> Self {
        let sink = sink.clone();
        Self::start_with(shape, move |batch| sink.handle(batch))
    }

    /// As `start`, with any handler.
    pub fn start_with(shape: Shape, handle: impl Fn(&[Item]) + Send + Sync + 'static) -> Self {
        let new = |_| CachePadded::new(B::with_capacity(shape.capacity));
        let buffers: Vec<_> = (0..shape.types).map(new).collect();
        let shared = Arc::new((buffers, AtomicBool::new(false)));
        let handle = Arc::new(handle);
        let start = |me: usize| {
            let (shared, handle) = (shared.clone(), handle.clone());
            std::thread::spawn(move || drain(&shared.0, &shared.1, me, shape, &*handle))
        };
        let threads = (0..shape.threads).map(start).collect();
        Self { shared, threads }
    }
}

fn drain<B: Buffer>(buffers: &[CachePadded<B>], ended: &AtomicBool, me: usize, shape: Shape, handle: &dyn Fn(&[Item])) {
    let mut list = Vec::new();
    let mut groups: Vec<Vec<Item>> = vec![Vec::new(); shape.types];
    let mut met: Vec<Key> = Vec::new();
    let mut idle = MIN_IDLE;
    loop {
        let last = ended.load(Ordering::Acquire);
        buffers.iter().skip(me).step_by(shape.threads).for_each(|buffer| buffer.take(MAX_BATCH, &mut list));
        if list.is_empty() {
            if last {
                return;
            }
            std::thread::sleep(idle);
            idle = (idle * 2).min(MAX_IDLE);
            continue;
        }
        idle = MIN_IDLE;
        for item in list.drain(..) {
            let group = &mut groups[item.key() as usize];
            if group.is_empty() {
                met.push(item.key());
            }
            group.push(item);
        }
        for key in met.drain(..) {
            handle(&groups[key as usize]);
            groups[key as usize].clear();
        }
    }
}

impl<B: Buffer + Send + Sync + 'static> Engine for Partitioned<B> {
    #[inline]
    fn produce(&self, item: Item) {
        let buffer = &self.shared.0[item.key() as usize];
        while !buffer.push(item) {
            std::thread::yield_now();
        }
    }
}

impl<B: Buffer + Send + Sync + 'static> Drop for Partitioned<B> {
    fn drop(&mut self) {
        self.shared.1.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            thread.join().expect("a rival's thread does not panic");
        }
    }
}

/// What a load cost, per item: time from the first produce to the end of the last handler call, and processor time of
/// the whole process in between.
#[derive(Clone, Copy)]
pub struct Cost {
    pub wall: f64,
    pub cpu: f64,
}

/// Puts `items` items on the queue from `producers` threads, each going through its own sequence of types.
pub fn put_load(
    engine: &dyn Engine,
    end: &Receiver<(Instant, f64)>,
    items: usize,
    producers: usize,
    types: impl Fn(u64) -> Vec<usize> + Sync,
) -> Cost {
    let (ready, go) = (Barrier::new(producers + 1), Barrier::new(producers + 1));
    let produce = |producer: usize| {
        let types: Vec<Key> = types(producer as u64 + 1).into_iter().map(|at| at as Key).collect();
        let share = (items * (producer + 1)) / producers - (items * producer) / producers;
        ready.wait();
        go.wait();
        let started = Instant::now();
        for (number, key) in (0..share).zip(types.iter().cycle()) {
            engine.produce(Item::new(*key, number));
        }
        started
    };
    let (started, cpu) = std::thread::scope(|scope| {
        let produce = &produce;
        let producers: Vec<_> = (0..producers).map(|producer| scope.spawn(move || produce(producer))).collect();
        ready.wait();
        let cpu = process_cpu_nanos();
        go.wait();
        let starts = producers.into_iter().map(|producer| producer.join().expect("a producer does not panic"));
        (starts.min().expect("there is a producer"), cpu)
    });
    let (ended, cpu_ended) = end.recv().expect("the sink says when it is done");
    Cost { wall: (ended - started).as_nanos() as f64 / items as f64, cpu: (cpu_ended - cpu) / items as f64 }
}
