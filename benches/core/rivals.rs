//! Other bounded buffers, behind one face.

use crate::item::Item;
use crossbeam::queue::ArrayQueue;
use drainq_core::ring::Ring;
use parking_lot::Mutex;

/// A bounded buffer that one thread empties.
pub trait Buffer {
    fn with_capacity(capacity: usize) -> Self;

    /// False if there is no room.
    fn push(&self, item: Item) -> bool;

    /// Moves up to `max` items, or what the buffer can only give as a whole, to the end of `out`. One thread at a time.
    fn take(&self, max: usize, out: &mut Vec<Item>);
}

impl Buffer for Ring<Item> {
    fn with_capacity(capacity: usize) -> Self {
        Self::new(capacity)
    }

    #[inline]
    fn push(&self, item: Item) -> bool {
        self.push(item).is_ok()
    }

    #[inline]
    fn take(&self, max: usize, out: &mut Vec<Item>) {
        // SAFETY: one thread at a time calls this, as the trait demands.
        unsafe { self.take(max, out) };
    }
}

impl Buffer for ArrayQueue<Item> {
    fn with_capacity(capacity: usize) -> Self {
        Self::new(capacity)
    }

    #[inline]
    fn push(&self, item: Item) -> bool {
        self.push(item).is_ok()
    }

    #[inline]
    fn take(&self, max: usize, out: &mut Vec<Item>) {
        out.extend(std::iter::from_fn(|| self.pop()).take(max));
    }
}

/// A vector under a lock; who empties it leaves an empty one in its place.
pub struct MutexSwap {
    capacity: usize,
    items: Mutex<Vec<Item>>,
}

impl Buffer for MutexSwap {
    fn with_capacity(capacity: usize) -> Self {
        Self { capacity, items: Mutex::default() }
    }

    #[inline]
    fn push(&self, item: Item) -> bool {
        let mut items = self.items.lock();
        let room = items.len() < self.capacity;
        if room {
            items.push(item);
        }
        room
    }

    #[inline]
    fn take(&self, _max: usize, out: &mut Vec<Item>) {
        if out.is_empty() {
            std::mem::swap(out, &mut self.items.lock());
        } else {
            out.append(&mut self.items.lock());
        }
    }
}

/// Both ends of a channel.
pub struct Flume(flume::Sender<Item>, flume::Receiver<Item>);

impl Buffer for Flume {
    fn with_capacity(capacity: usize) -> Self {
        let (sender, receiver) = flume::bounded(capacity);
        Self(sender, receiver)
    }

    #[inline]
    fn push(&self, item: Item) -> bool {
        self.0.try_send(item).is_ok()
    }

    #[inline]
    fn take(&self, _max: usize, out: &mut Vec<Item>) {
        // `drain` takes everything out of the channel at once, whatever is asked of it later.
        out.extend(self.1.drain());
    }
}

/// Both ends of a channel.
pub struct Kanal(kanal::Sender<Item>, kanal::Receiver<Item>);

impl Buffer for Kanal {
    fn with_capacity(capacity: usize) -> Self {
        let (sender, receiver) = kanal::bounded(capacity);
        Self(sender, receiver)
    }

    #[inline]
    fn push(&self, item: Item) -> bool {
        self.0.try_send(item).is_ok_and(|sent| sent)
    }

    #[inline]
    fn take(&self, _max: usize, out: &mut Vec<Item>) {
        self.1.drain_into(out).expect("both ends are open");
    }
}

/// Both ends of a ring for many producers and one consumer.
pub struct Nexus(nexus_queue::mpsc::Producer<Item>, nexus_queue::mpsc::Consumer<Item>);

impl Buffer for Nexus {
    fn with_capacity(capacity: usize) -> Self {
        let (producer, consumer) = nexus_queue::mpsc::ring_buffer(capacity);
        Self(producer, consumer)
    }

    #[inline]
    fn push(&self, item: Item) -> bool {
        self.0.push(item).is_ok()
    }

    #[inline]
    fn take(&self, max: usize, out: &mut Vec<Item>) {
        out.extend(std::iter::from_fn(|| self.1.pop()).take(max));
    }
}
