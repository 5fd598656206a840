//! Who keeps a sub-queue's slot: the slot and its leftovers go when the last handle goes.

use super::queue::Shared;
use super::selector::Slot;
use crate::sync::Arc;

/// Holds one slot; shared by a sub-queue's handle and those who wait on it.
pub struct Owner<T, L> {
    pub(super) shared: Arc<Shared<T, L>>,
    pub(super) slot: Slot,
}

impl<T, L> Drop for Owner<T, L> {
    fn drop(&mut self) {
        // The sub-queue and its items drop at the end, without the lock.
        let _sub = self.shared.with(|state, wakes| {
            state.retire(self.slot, wakes);
            state.release(self.slot)
        });
    }
}
