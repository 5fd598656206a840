//! The handles: a [`MultiQueue`] takes items from many [`SubQueue`]s with one blocking get.
//!
//! Each call takes the lock, does one step of [`MultiState`], releases the lock, and then wakes the waiters that the
//! step notified.

use super::put::PutRefusal;
use super::round_robin_selection::{Order, Slot};
use super::shared::{MultiShared, Owner};
use super::state::{MultiState, ShutdownMode, SubQueueSettings};
use super::sub_queue::{Membership, Stats};
use super::take::Nothing;
use super::wait::Wait;
use super::waiters::WaitersOf;
use crate::clock::Clock;
use crate::sync::{Arc, Mutex};

/// Many sub-queues behind one blocking get.
///
/// `T` is the item, `L` the label by which the caller knows a sub-queue.
pub struct MultiQueue<T, L> {
    shared: Arc<MultiShared<T, L>>,
}

impl<T, L: Clone> MultiQueue<T, L> {
    /// Makes a multi-queue without sub-queues.
    pub fn new(order: Order, clock: impl Clock + 'static) -> Self {
        Self { shared: Arc::new(MultiShared { state: Mutex::new(MultiState::new(order)), clock: Box::new(clock) }) }
    }

    /// Adds a sub-queue; returns the label if the queue was shut down.
    pub fn add(&self, label: L, settings: SubQueueSettings, disabled_by: Option<String>) -> Result<SubQueue<T, L>, L> {
        let slot = self.shared.with(|state, _| state.add(label, settings, disabled_by))?;
        Ok(SubQueue { owner: Arc::new(Owner { shared: self.shared.clone(), slot }) })
    }

    /// Takes the item whose turn it is.
    #[inline]
    pub fn try_get(&self) -> Result<T, Nothing> {
        self.shared.with(|state, wakes| state.take(wakes).map(|(_, entry)| entry.item))
    }

    /// Takes the item whose turn it is, with the label of its sub-queue.
    pub fn try_get_labelled(&self) -> Result<(L, T), Nothing> {
        self.shared.with(|state, wakes| {
            let (slot, entry) = state.take(wakes)?;
            Ok((state.sub(slot).label.clone(), entry.item))
        })
    }

    /// Takes up to `most` items in one step, if there are at least `least` items and at least one.
    pub fn try_get_all(&self, least: usize, most: usize) -> Option<Vec<T>> {
        self.shared.with(|state, wakes| {
            if state.servable < least.max(1) {
                return None;
            }
            let count = most.min(state.servable);
            let mut items = Vec::with_capacity(count);
            items.extend((0..count).map_while(|_| state.take(wakes).ok()).map(|(_, entry)| entry.item));
            Some(items)
        })
    }

    /// Reads the item whose turn it is; changes nothing.
    ///
    /// `read` runs under the lock: it must not call back, block, or drop an item.
    pub fn peek<R>(&self, read: impl FnOnce(&T) -> R) -> Result<R, Nothing> {
        self.shared.with(|state, _| {
            let slot = state.selection.next().ok_or(state.nothing())?;
            state.sub(slot).items.front().map(|head| read(&head.item)).ok_or(Nothing::Empty)
        })
    }

    /// Returns the labels of the sub-queues that can be served, a list for each group by priority, in order of turn.
    pub fn servable(&self) -> Result<Vec<Vec<L>>, Nothing> {
        self.shared.with(|state, _| {
            let groups = state.selection.in_turn_order();
            if groups.is_empty() {
                return Err(state.nothing());
            }
            let label = |slot: Slot| state.sub(slot).label.clone();
            Ok(groups.into_iter().map(|group| group.into_iter().map(label).collect()).collect())
        })
    }

    /// Returns the state that the handles share. A forked child calls [`MultiShared::restart_in_child`] on it.
    pub fn shared(&self) -> &Arc<MultiShared<T, L>> {
        &self.shared
    }

    /// Makes a getter, which is not a waiter before [`Wait::enter`].
    pub fn getter(&self) -> Wait<T, L> {
        Wait::new(self.shared.clone(), WaitersOf::Getters, None)
    }

    /// Counts one taken item as done; returns false if all taken items are done already.
    pub fn task_done(&self) -> bool {
        self.shared.with(|state, _| state.task_done())
    }

    /// Makes a waiter for the moment when each item that was put is done or was removed.
    pub fn joiner(&self) -> Wait<T, L> {
        Wait::new(self.shared.clone(), WaitersOf::Joiners, None)
    }

    /// Returns how many items can be taken now.
    #[inline]
    pub fn len(&self) -> usize {
        self.shared.with(|state, _| state.servable)
    }

    /// Whether nothing can be taken now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of slots, vacant ones included.
    #[cfg(test)]
    pub fn slots(&self) -> usize {
        self.shared.with(|state, _| state.subs.len())
    }

    /// Whether it was shut down.
    pub fn is_shut_down(&self) -> bool {
        self.shared.with(|state, _| state.is_shut_down)
    }

    /// Refuses items from now on; returns the items that the mode discards.
    pub fn shut_down(&self, mode: ShutdownMode) -> Vec<T> {
        self.shared.with(|state, wakes| state.shut_down(mode, wakes))
    }

    /// Returns the counters of each of `subs` that is still attached, the multi-queue's own counters, and the number of
    /// blocked getters.
    pub fn stats(&self, subs: &[&SubQueue<T, L>]) -> (Vec<Option<Stats>>, Stats, usize) {
        let now = self.shared.now();
        self.shared.with(|state, _| {
            let slots = subs.iter().map(|sub| sub.owner.slot);
            let attached = slots.map(|slot| (state.sub(slot).membership == Membership::Attached).then_some(slot));
            let each = attached.map(|slot| slot.map(|slot| state.sub_stats(slot, now))).collect();
            (each, state.total_stats(now), state.getters.blocked())
        })
    }
}

impl<T, L> Drop for MultiQueue<T, L> {
    fn drop(&mut self) {
        self.shared.with(|state, wakes| state.orphan(wakes));
    }
}

/// One keyed queue below a [`MultiQueue`].
///
/// Dropping it removes it and drops its items.
pub struct SubQueue<T, L> {
    pub(super) owner: Arc<Owner<T, L>>,
}

impl<T, L> SubQueue<T, L> {
    /// Adds an item if there is room.
    #[inline]
    pub fn try_put(&self, item: T) -> Result<(), (T, PutRefusal)> {
        let Owner { shared, slot } = &*self.owner;
        let now = shared.now();
        shared.with(|state, _| state.push(*slot, item, now))
    }

    /// Adds items, first to last, while there is room. The rest stays in `items`.
    pub fn try_put_many(&self, items: &mut std::vec::IntoIter<T>) -> Result<(), PutRefusal> {
        let Owner { shared, slot } = &*self.owner;
        let now = shared.now();
        shared.with(|state, _| state.push_many(*slot, items, now))
    }

    /// Counts items that were refused for good.
    pub fn reject(&self, count: u64) {
        let Owner { shared, slot } = &*self.owner;
        shared.with(|state, _| state.reject(*slot, count));
    }

    /// Counts an item that the caller leaves out because an equal one waits, unless it would be refused anyway.
    pub fn leave_out(&self) -> Result<(), PutRefusal> {
        let Owner { shared, slot } = &*self.owner;
        shared.with(|state, _| state.leave_out(*slot))
    }

    /// Takes the head, if this sub-queue can be served.
    pub fn try_get(&self) -> Option<T> {
        let Owner { shared, slot } = &*self.owner;
        shared.with(|state, wakes| state.take_from(*slot, wakes)).map(|entry| entry.item)
    }

    /// Makes a putter, which is not a waiter before [`Wait::enter`].
    pub fn putter(&self) -> Wait<T, L> {
        Wait::new(self.owner.shared.clone(), WaitersOf::Putters(self.owner.slot), Some(self.owner.clone()))
    }

    /// Takes every item out.
    pub fn clear(&self) -> Vec<T> {
        let Owner { shared, slot } = &*self.owner;
        shared.with(|state, wakes| state.clear(*slot, wakes))
    }

    /// Takes out the items for which `is_one` returns true; `is_one` is called once for each item, first to last.
    ///
    /// `is_one` runs under the lock: it must not call back, block, or drop an item.
    pub fn remove(&self, is_one: impl FnMut(&T) -> bool) -> Vec<T> {
        let Owner { shared, slot } = &*self.owner;
        shared.with(|state, wakes| state.remove(*slot, is_one, wakes))
    }

    /// Reads the items, first to last. `read` runs under the lock, as `is_one` of [`SubQueue::remove`] does.
    pub fn read<R>(&self, read: impl FnOnce(&mut dyn Iterator<Item = &T>) -> R) -> R {
        let Owner { shared, slot } = &*self.owner;
        shared.with(|state, _| read(&mut state.sub(*slot).items.iter().map(|entry| &entry.item)))
    }

    /// Reads the head. `read` runs under the lock, as `is_one` of [`SubQueue::remove`] does.
    pub fn peek<R>(&self, read: impl FnOnce(&T) -> R) -> Option<R> {
        let Owner { shared, slot } = &*self.owner;
        shared.with(|state, _| state.sub(*slot).items.front().map(|head| read(&head.item)))
    }

    /// Removes the sub-queue from its multi-queue for good; returns false if it was removed before.
    pub fn retire(&self) -> bool {
        let Owner { shared, slot } = &*self.owner;
        shared.with(|state, wakes| state.retire(*slot, wakes))
    }

    /// Whether it still belongs to its multi-queue.
    pub fn membership(&self) -> Membership {
        self.owner.shared.with(|state, _| state.sub(self.owner.slot).membership)
    }

    /// Returns how many items wait.
    pub fn len(&self) -> usize {
        self.owner.shared.with(|state, _| state.sub(self.owner.slot).items.len())
    }

    /// Whether no item waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many more items fit.
    pub fn room(&self) -> usize {
        self.owner.shared.with(|state, _| state.sub(self.owner.slot).room())
    }

    /// Returns priority, capacity and weight as they are now.
    pub fn settings(&self) -> SubQueueSettings {
        self.owner.shared.with(|state, _| {
            let sub = state.sub(self.owner.slot);
            SubQueueSettings { priority: sub.priority, capacity: sub.capacity, weight: sub.weight }
        })
    }

    /// Moves the sub-queue to a priority, behind the last one there.
    pub fn set_priority(&self, priority: i64) {
        self.owner.shared.with(|state, _| state.set_priority(self.owner.slot, priority));
    }

    /// Sets how many items fit; items that are already here stay.
    pub fn set_capacity(&self, capacity: usize) {
        self.owner.shared.with(|state, wakes| state.set_capacity(self.owner.slot, capacity, wakes));
    }

    /// Sets the number of turns in a row.
    pub fn set_weight(&self, weight: u32) {
        self.owner.shared.with(|state, _| state.set_weight(self.owner.slot, weight));
    }

    /// Adds a reason not to serve the sub-queue.
    pub fn disable(&self, reason: String) {
        self.owner.shared.with(|state, _| {
            state.change_reasons(self.owner.slot, |sub| {
                sub.disabled_by.insert(reason);
            });
        });
    }

    /// Removes one reason, or all. The sub-queue is served again when none is left.
    pub fn enable(&self, reason: Option<&str>) {
        self.owner.shared.with(|state, _| {
            state.change_reasons(self.owner.slot, |sub| match reason {
                None => sub.disabled_by.clear(),
                Some(reason) => {
                    sub.disabled_by.remove(reason);
                }
            });
        });
    }

    /// Returns the reasons why the sub-queue is not served now; none if it is enabled.
    pub fn disabled_by(&self) -> Vec<String> {
        self.owner.shared.with(|state, _| state.sub(self.owner.slot).disabled_by.iter().cloned().collect())
    }

    /// Returns the counters of the sub-queue.
    pub fn stats(&self) -> Stats {
        let now = self.owner.shared.now();
        self.owner.shared.with(|state, _| state.sub_stats(self.owner.slot, now))
    }
}
