//! Puts items into a sub-queue, or refuses them with a reason.

use super::round_robin_selection::Slot;
use super::state::MultiState;
use super::sub_queue::{Membership, QueuedItem};

/// Why an item was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutRefusal {
    /// There is no room.
    Full,
    /// There is no room, and the multi-queue was dropped, so no getter will make room.
    Orphaned,
    /// The sub-queue was removed.
    Removed,
    /// The multi-queue was shut down.
    ShutDown,
    /// There is no memory for another item.
    NoMemory,
}

impl<T, L> MultiState<T, L> {
    /// Returns the reason why `slot` would refuse an item even if it had room.
    pub fn refusal(&self, slot: Slot) -> Option<PutRefusal> {
        match self.sub(slot).membership {
            Membership::Removed => Some(PutRefusal::Removed),
            Membership::Attached => self.is_shut_down.then_some(PutRefusal::ShutDown),
        }
    }

    #[inline]
    pub fn push(&mut self, slot: Slot, item: T, at: u64) -> Result<(), (T, PutRefusal)> {
        if let Some(refusal) = self.refusal(slot) {
            return Err((item, refusal));
        }
        let sub = self.sub_mut(slot);
        if sub.room() == 0 {
            return Err((item, if self.is_orphaned { PutRefusal::Orphaned } else { PutRefusal::Full }));
        }
        if sub.items.try_reserve(1).is_err() {
            return Err((item, PutRefusal::NoMemory));
        }
        sub.items.push_back(QueuedItem { item, at });
        let depth = sub.items.len();
        sub.counters.put += 1;
        sub.counters.high_water = sub.counters.high_water.max(depth);
        if sub.is_enabled() {
            let is_full = sub.room() == 0;
            self.servable += 1;
            self.full += usize::from(is_full);
            if depth == 1 {
                self.selection.set_ready(slot, true);
            }
        }
        self.depth += 1;
        self.totals.put += 1;
        self.totals.high_water = self.totals.high_water.max(self.depth);
        Ok(())
    }

    /// Pushes items while there is room; returns the reason if items are left.
    pub fn push_many(&mut self, slot: Slot, items: &mut std::vec::IntoIter<T>, at: u64) -> Result<(), PutRefusal> {
        if let Some(refusal) = self.refusal(slot) {
            return Err(refusal);
        }
        let sub = self.sub_mut(slot);
        let fitting = sub.room().min(items.len());
        // Reserved for all items at once, so that no item has to go back into the iterator.
        if sub.items.try_reserve(fitting).is_err() {
            return Err(PutRefusal::NoMemory);
        }
        for _ in 0..fitting {
            let Some(item) = items.next() else { break };
            let pushed = self.push(slot, item, at);
            debug_assert!(pushed.is_ok(), "there is room, and this thread holds the lock");
        }
        match items.len() {
            0 => Ok(()),
            _ if self.is_orphaned => Err(PutRefusal::Orphaned),
            _ => Err(PutRefusal::Full),
        }
    }

    /// Counts an item that its caller leaves out because an equal one waits, unless it would be refused anyway.
    pub fn leave_out(&mut self, slot: Slot) -> Result<(), PutRefusal> {
        self.refusal(slot).map_or(Ok(()), Err)?;
        self.sub_mut(slot).counters.duplicates += 1;
        self.totals.duplicates += 1;
        Ok(())
    }

    pub fn reject(&mut self, slot: Slot, count: u64) {
        let sub = self.sub_mut(slot);
        sub.counters.rejected += count;
        if sub.membership == Membership::Attached {
            self.totals.rejected += count;
        }
    }
}
