//! Takes items: by turn, from one sub-queue, or for a bulk get that may give them back.

use super::round_robin_selection::Slot;
use super::state::MultiState;
use super::sub_queue::QueuedItem;
use super::waiters::Wakes;

/// Why a getter finds no item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nothing {
    /// No item now.
    Empty,
    /// No item, and the queue was shut down.
    ShutDown,
}

impl<T, L> MultiState<T, L> {
    /// Returns the reason why a getter finds no item, which decides whether it waits or gives up.
    pub fn nothing(&self) -> Nothing {
        if self.is_shut_down { Nothing::ShutDown } else { Nothing::Empty }
    }

    /// Takes the item whose turn it is, with the slot of its sub-queue.
    #[inline]
    pub fn take(&mut self, wakes: &mut Wakes) -> Result<(Slot, QueuedItem<T>), Nothing> {
        match self.selection.take_turn() {
            Some(slot) => Ok((slot, self.pop(slot, wakes))),
            None => Err(self.nothing()),
        }
    }

    /// Takes the head of `slot` out of turn, if the sub-queue can be served.
    pub fn take_from(&mut self, slot: Slot, wakes: &mut Wakes) -> Option<QueuedItem<T>> {
        if !self.sub(slot).is_servable() {
            return None;
        }
        self.selection.served(slot);
        Some(self.pop(slot, wakes))
    }

    /// Takes the head of `slot`, which can be served; does not count a turn.
    #[inline]
    fn pop(&mut self, slot: Slot, wakes: &mut Wakes) -> QueuedItem<T> {
        let entry = self.detach_head(slot, wakes);
        self.count_got(slot);
        entry
    }

    /// Takes the head as [`MultiState::pop`] does, but the item stays counted in `depth`.
    #[inline]
    pub fn detach_head(&mut self, slot: Slot, wakes: &mut Wakes) -> QueuedItem<T> {
        let sub = self.sub_mut(slot);
        let was_full = sub.room() == 0;
        let entry = sub.items.pop_front().expect("a servable sub-queue holds an item");
        let (is_empty, has_putters) = (sub.items.is_empty(), !sub.putters.is_idle());
        let is_full = sub.room() == 0 && !is_empty;
        self.servable -= 1;
        self.full -= usize::from(was_full && !is_full);
        if is_empty {
            self.selection.set_ready(slot, false);
            self.sub_mut(slot).give_memory_back();
        }
        if has_putters {
            self.notify_putters(slot, wakes);
        }
        entry
    }

    /// Puts an item of [`MultiState::detach_head`] back at the head.
    pub fn attach_head(&mut self, slot: Slot, entry: QueuedItem<T>) {
        self.uncount_servable(slot);
        self.sub_mut(slot).items.push_front(entry);
        self.count_servable(slot);
    }

    /// Counts an item of [`MultiState::detach_head`] as got.
    #[inline]
    pub fn count_got(&mut self, slot: Slot) {
        self.sub_mut(slot).counters.got += 1;
        self.depth -= 1;
        self.totals.got += 1;
    }

    /// Counts an item of [`MultiState::detach_head`] as removed.
    pub fn count_removed(&mut self, slot: Slot) {
        self.sub_mut(slot).counters.removed += 1;
        self.depth -= 1;
        self.totals.removed += 1;
    }
}
