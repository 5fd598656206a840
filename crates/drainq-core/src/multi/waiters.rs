//! The waiters of a multi-queue: its getters, and the putters of each sub-queue.

use super::round_robin_selection::Slot;
use crate::wait::tickets;

/// A group of waiters of a multi-queue: its getters, or the putters of one sub-queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitersOf {
    /// Wait for an item.
    Getters,
    /// Wait for room in a sub-queue.
    Putters(Slot),
}

/// Waiters of a multi-queue to wake once its lock is released.
pub type Wakes = tickets::Wakes<WaitersOf>;
