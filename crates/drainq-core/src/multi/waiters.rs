//! The waiters of a multi-queue: its getters, the putters of each sub-queue, and its joiners.

use super::round_robin_selection::Slot;
use crate::wait::tickets;

/// A group of waiters of a multi-queue: its getters, the putters of one sub-queue, or its joiners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitersOf {
    /// Wait for an item.
    Getters,
    /// Wait for room in a sub-queue.
    Putters(Slot),
    /// Wait until each item that was put is done.
    Joiners,
}

/// Waiters of a multi-queue to wake once its lock is released.
pub type Wakes = tickets::Wakes<WaitersOf>;
