//! An item's key and weight, and the types of the numbers that identify types, partitions and threads.

use super::config::MAX_WEIGHT;
use crate::sync::planted;

/// The number of a type, or of another dispatch key, within its queue.
pub type Key = u32;

/// The number of a partition within its queue. It names the same partition for ever.
pub type PartitionId = u32;

/// The number of a drain thread within its queue.
pub type ThreadId = u16;

/// An item that knows its type.
pub trait Keyed {
    /// Returns the key that [`super::BatchQueue::add_type`] returned for the item's type.
    fn key(&self) -> Key;

    /// Returns the weight of the item, such as the number of rows of a table, for a queue that weighs its items. The
    /// queue counts at most [`MAX_WEIGHT`].
    fn weight(&self) -> u64 {
        1
    }
}

/// Returns 1, or in a queue that weighs its items the item's own weight, bounded so that no sum of weights wraps.
#[inline]
pub(super) fn weight_of(item: &impl Keyed, weighed: bool) -> u64 {
    match weighed {
        false => 1,
        true if planted("weights_bound") => item.weight(),
        true => item.weight().min(MAX_WEIGHT),
    }
}
