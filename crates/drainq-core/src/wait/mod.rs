//! Waiting: one implementation for each kind of waiter, each with its model.
//!
//! | module | who waits | for what | proof |
//! | --- | --- | --- | --- |
//! | [`sleeper`] | a drain thread | an item in one of its partitions | `models::sleeper` |
//! | [`waiters`] | producers; callers of a flush or a shutdown | something that changes without a common lock | `models::waiters` |
//! | [`tickets`] | getters and putters of the multi-queue and the set queue | something that changes under the lock of their queue | `models::tickets` |
//! | [`lines`] | tasks that wait for a partition's room, a flush or the end | something that changes without the lock of the lines | `models::lines` |
//! | [`thread`] | a thread with a ticket | the notification of its ticket | `models::tickets` |

pub mod lines;
pub mod sleeper;
pub mod thread;
pub mod tickets;
pub mod waiters;
