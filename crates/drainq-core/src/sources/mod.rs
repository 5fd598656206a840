//! What stands in front of a slow source: a queue that refuses what it already knows.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`set_queue`] | order and identity of the entries, in one structure |
//! | [`wait_list`] | who waits for an entry or for room, and whom to wake |

pub mod set_queue;
pub mod wait_list;
