//! Waiting: one implementation for each kind of waiter, each with its model.
//!
//! | module | who waits | for what | proof |
//! | --- | --- | --- | --- |
//! | [`sleeper`] | a drain thread | an item in one of its partitions | `models::sleeper` |
//! | [`waiters`] | producers; callers of a flush or a shutdown | something that changes without a common lock | `models::waiters` |
//! | [`thread`] | how a thread sleeps until its ticket is notified | | `wait::models` |

pub mod sleeper;
pub mod waiters;
