//! Changes of a sub-queue's settings while it runs.

use super::round_robin_selection::Slot;
use super::state::MultiState;
use super::sub_queue::{Membership, Sub};
use super::waiters::Wakes;

impl<T, L> MultiState<T, L> {
    /// Changes the reasons for which a sub-queue is disabled.
    pub fn change_reasons(&mut self, slot: Slot, change: impl FnOnce(&mut Sub<T, L>)) {
        self.uncount_servable(slot);
        change(self.sub_mut(slot));
        self.count_servable(slot);
    }

    /// Moves a sub-queue to a priority, behind the last one there.
    pub fn set_priority(&mut self, slot: Slot, priority: i64) {
        let sub = self.sub_mut(slot);
        if std::mem::replace(&mut sub.priority, priority) == priority || sub.membership == Membership::Removed {
            return;
        }
        let (weight, is_servable) = (sub.weight, sub.is_servable());
        self.selection.remove(slot);
        self.selection.insert(slot, priority, weight);
        self.selection.set_ready(slot, is_servable);
    }

    pub fn set_capacity(&mut self, slot: Slot, capacity: usize, wakes: &mut Wakes) {
        self.uncount_servable(slot);
        self.sub_mut(slot).capacity = capacity;
        self.count_servable(slot);
        self.notify_putters(slot, wakes);
    }

    pub fn set_weight(&mut self, slot: Slot, weight: u32) {
        self.sub_mut(slot).weight = weight;
        self.selection.set_weight(slot, weight);
    }
}
