//! An item between the head of a sub-queue and the bulk get that collects it.

use super::selector::Slot;
use super::sub_queue::QueuedItem;

/// An item that was taken and may go back.
pub(super) struct Held<T> {
    pub(super) slot: Slot,
    pub(super) entry: QueuedItem<T>,
}
