//! How items get into a partition if the interpreter has no GIL. `push_with_gil.rs` has the same functions.
//!
//! Producers claim their slots by compare-and-swap, which is also the fence that a drain thread needs before it falls
//! asleep (`batch/produce.rs` in the core). There is no fast path to open, to close or to hand over.

use super::SharedQueue;
use super::produce_many::Run;
use crate::batch::routing::CachedRoute;
use crate::batch::types::item::Item;
use crate::objects;
use drainq_core::batch::PartitionId;
use drainq_core::ring::{CLAIM, Refusal};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::vec::IntoIter;

impl SharedQueue {
    /// Queues an object by its cached route, if there is room: true if it was queued.
    #[inline(always)]
    pub(super) fn push_fast(&self, object: &Bound<'_, PyAny>, CachedRoute { tag, partition }: CachedRoute<'_>) -> bool {
        // SAFETY: the object fits, and the tag holds the key alone.
        Item::fits(object) && self.queue().try_produce_once(partition, unsafe { Item::tagged(object, tag) }).is_ok()
    }

    /// Returns false: [`Self::push_fast`] has tried everything.
    pub(super) fn push_and_reopen(&self, _object: &Bound<'_, PyAny>, _route: CachedRoute<'_>) -> bool {
        false
    }

    /// Queues consecutive items of one partition from index `from` of a list, as far as there is room, by one claim;
    /// returns how many.
    pub(super) fn push_run(&self, list: &Bound<'_, PyList>, from: usize) -> usize {
        let mut items = Vec::new();
        if items.try_reserve(list.len().saturating_sub(from).min(CLAIM)).is_err() {
            return 0;
        }
        let partition = objects::alone_with(list, || {
            let mut run = Run::new(list, from, &self.routing.routes)?;
            while items.len() < items.capacity()
                && let Some(item) = run.next_item()
            {
                items.push(item);
            }
            Some(run.route.partition)
        });
        partition.map_or(0, |partition| self.queue().try_produce_many_at(partition, &mut items.into_iter()).0)
    }

    /// Queues an item, if there is room.
    pub fn push(&self, _py: Python<'_>, partition: PartitionId, item: Item) -> Result<(), (Item, Refusal)> {
        self.queue().try_produce_to(partition, item)
    }

    /// Queues items of one partition in order, while there is room; returns how many, and the reason if any are left.
    pub(super) fn push_many(
        &self,
        _py: Python<'_>,
        partition: PartitionId,
        items: &mut IntoIter<Item>,
    ) -> (usize, Option<Refusal>) {
        self.queue().try_produce_many(partition, items)
    }

    /// Does nothing: a producer's claim is all that a drain thread relies on before it falls asleep.
    pub(super) fn sync_with_producers(&self, _close_fast_path: &dyn Fn()) {}
}
