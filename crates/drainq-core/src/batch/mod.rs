//! The batch queue: partitioned, self-draining, one handler call per type and pass.
//!
//! ```text
//! producer -> route (type -> partition) -> ring -> drain thread: take, group, handler call
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`config`], [`size_policies`] | settings, defaults, rules for numbers of threads and partitions |
//! | [`item`] | what the queue reads of an item; numbers of types, partitions and threads |
//! | [`type_route`] | a type's partition, chosen once, and its counters |
//! | [`outcome_counters`] | what became of items: each outcome once, and its counters |
//! | `partition_loads` | the load of each partition, in order, by which a new type's is chosen |
//! | `used_capacity`, `queue_capacity` | how much of a capacity is used; the bound that all partitions share |
//! | `weights` | capacity and counters in weights |
//! | [`partition`] | ring, ownership and waiting producers of one partition |
//! | [`queue`] | the queue: joins the others, no algorithm of its own |
//! | `produce_within_capacity` | producing into a queue whose partitions share a capacity |
//! | [`produce`] | producing where one lock keeps the producers apart |
//! | `partition_layout` | the partitions, and the types that are routed to them; both grow while the queue runs |
//! | [`rejection`] | why items were not accepted, and how many |
//! | [`drop_counts`] | why items are not handled, how many, and when that is reported |
//! | [`drain_take`], [`drain_group`] | what a drain thread takes: begin a pass, take, group |
//! | `drain_hand_out` | what a drain thread hands out and accounts for |
//! | `drain_step` | what a drain thread does next, and how it waits |
//! | `drain_idle_sleep` | how deep and how long a thread sleeps that found nothing |
//! | [`partition_handoff`] | revoke, cycle fence, assign |
//! | [`drain_balancer`], [`rebalance`] | plans, and carrying them out |
//! | [`drain_worker`] | what the queue knows of one drain thread |
//! | [`flush`], [`shutdown`] | waiting for everything accepted; the end |
//! | [`stats`] | snapshots in which every item is in exactly one place |
//! | [`shared_scheduler`] | drain threads that several queues share |
//! | `shared_scheduler_board` | which of these threads works for which queue |
//! | [`drain_threads`] | drain threads for a program in Rust |

pub mod config;
pub mod drain_balancer;
pub mod drain_group;
mod drain_hand_out;
mod drain_idle_sleep;
mod drain_step;
pub mod drain_take;
pub mod drain_threads;
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
pub mod shared_scheduler;
mod shared_scheduler_board;
pub mod shutdown;
pub mod size_policies;
pub mod stats;
pub mod type_route;
mod used_capacity;
pub(crate) mod weights;

pub use config::{BufferStrategy, Settings};
pub use drain_group::{Batch, Grouping};
pub use drain_hand_out::Pass;
pub use drain_step::Step;
pub use drain_take::Drainer;
pub use item::{Key, Keyed, PartitionId};
pub use outcome_counters::{Outcome, OutcomeCounts};
pub use queue::BatchQueue;
pub use rejection::Rejection;
pub use size_policies::{PartitionPolicy, ThreadPolicy};
