//! What the queue knows of an item, and the numbers by which it names types, partitions and threads.

use super::config::MAX_WEIGHT;
use crate::sync::planted;

/// The number of a type, or of another dispatch key, within its queue.
pub type Key = u32;

/// The number of a partition within its queue; it names the same partition for ever.
pub type PartitionId = u32;

/// The number of a drain thread within its queue.
pub type ThreadId = u16;

/// An item that knows its type.
pub trait Keyed {
    /// The key that [`super::BatchQueue::add_type`] gave for the type.
    fn key(&self) -> Key;

    /// What it counts for in a queue that weighs its items: the rows of a table, say. More than
    /// [`MAX_WEIGHT`](super::config::MAX_WEIGHT) counts for that.
    fn weight(&self) -> u64 {
        1
    }
}

/// What an item counts for: one, or in a queue that weighs its items its weight, bounded so that no
/// sum of weights ever wraps.
#[inline]
pub(super) fn weight_of(item: &impl Keyed, weighed: bool) -> u64 {
    match weighed {
        false => 1,
        true if planted("weights_bound") => item.weight(),
        true => item.weight().min(MAX_WEIGHT),
    }
}
