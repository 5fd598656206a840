//! The batch queue: partitioned, self-draining, one handler call per type and pass.
//!
//! ```text
//! producer -> route (type -> partition) -> ring -> drain thread: take, group, handler call
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`config`] | settings, their defaults and their limits |
//! | [`item`] | an item's key and weight; the numbers that identify types, partitions and threads |
//! | [`type_route`] | a type's partition, chosen once, and its counters |
//! | [`outcome_counters`] | the outcomes of items, and their counters |
//! | `partition_loads` | the load of each partition; a new type goes to the partition with the least load |
//! | `used_capacity`, `queue_capacity` | the used part of a capacity; the capacity that all partitions share |
//! | `weights` | capacity and counters in weights |
//! | [`partition`] | ring, ownership and waiting producers of one partition |
//! | [`queue`] | the queue, which joins the other modules |
//! | `produce_within_capacity` | pushing into a queue with a capacity |
//! | [`produce`] | pushing, waking the drain thread, opening and closing the fast path |
//! | `partition_layout` | the partitions and their number, and the types that are routed to them; both grow while the queue runs |
//! | [`rejection`] | the reasons why items were not accepted, and their counters |
//! | [`drop_counts`] | the reasons why items are not handled, and when their counts are reported |
//! | [`drain_take`], [`drain_group`] | the first half of a pass: takes items, groups them by type |
//! | `drain_hand_out` | the second half of a pass: hands out batches, counts their items by outcome |
//! | `drain_step` | the next step of a drain thread: a pass, an idle report, a sleep, the end |
//! | `drain_idle_sleep` | how deep and how long a drain thread sleeps after an empty pass |
//! | [`partition_handoff`] | revoke, cycle fence, assign |
//! | [`drain_balancer`], [`rebalance`] | plans which thread owns which partition; carries the plans out |
//! | [`drain_worker`] | the queue's record of one drain thread |
//! | [`flush`], [`shutdown`] | waits until accepted items are handled; ends the queue |
//! | [`stats`] | snapshots in which every item is in exactly one place |
//! | [`shared_scheduler`] | drain threads that several queues share |
//! | `shared_scheduler_board` | which of these threads works for which queue, under one lock |
//! | [`running`] | drain threads for a program in Rust |

pub mod config;
pub mod drain_balancer;
pub mod drain_group;
mod drain_hand_out;
mod drain_idle_sleep;
mod drain_step;
pub mod drain_take;
pub mod drain_worker;
pub mod drop_counts;
pub mod flush;
pub mod item;
pub mod outcome_counters;
pub mod partition;
pub mod partition_handoff;
mod partition_layout;
mod partition_loads;
pub mod produce;
mod produce_within_capacity;
pub mod queue;
mod queue_capacity;
pub mod rebalance;
pub mod rejection;
pub mod running;
pub mod shared_scheduler;
mod shared_scheduler_board;
pub mod shutdown;
pub mod stats;
pub mod type_route;
mod used_capacity;
pub(crate) mod weights;

pub use config::{BufferStrategy, PartitionPolicy, Settings};
pub use drain_group::{Batch, Grouping};
pub use drain_hand_out::Pass;
pub use drain_step::Step;
pub use drain_take::Drainer;
pub use item::{Key, Keyed, PartitionId};
pub use outcome_counters::{Outcome, OutcomeCounts};
pub use queue::BatchQueue;
pub use rejection::Rejection;
