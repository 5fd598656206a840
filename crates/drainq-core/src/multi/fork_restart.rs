//! Empties the copy of a multi-queue in a forked child. The copy keeps the sub-queues and their settings.
//!
//! The parent's items, waiters and counts belong to the parent. The child forgets them and does not drop them: dropping
//! an item could run its owner's code, and waking a waiter would touch state that a thread of the parent may have been
//! changing.

use super::shared::MultiShared;
use super::state::MultiState;
use super::sub_queue::Counters;

impl<T, L> MultiShared<T, L> {
    /// Starts afresh in a forked child, whose only thread calls this. No other thread may have held
    /// the lock at the fork.
    pub fn restart_in_child(&self) {
        self.with(|state, _| state.restart_in_child());
    }
}

impl<T, L> MultiState<T, L> {
    fn restart_in_child(&mut self) {
        for slot in 0..self.subs.len() {
            self.uncount_servable_if_any(slot);
            let Some(sub) = &mut self.subs[slot] else { continue };
            std::mem::forget(std::mem::take(&mut sub.items));
            std::mem::forget(std::mem::take(&mut sub.putters));
            sub.held = 0;
            sub.counters = Counters::default();
        }
        std::mem::forget(std::mem::take(&mut self.held));
        std::mem::forget(std::mem::take(&mut self.getters));
        std::mem::forget(std::mem::take(&mut self.joiners));
        self.forget_counts();
    }
}
