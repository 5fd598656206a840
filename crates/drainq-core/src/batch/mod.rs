//! The batch queue: partitioned, self-draining, one handler call per type and pass.
//!
//! ```text
//! producer -> route (type -> partition) -> ring -> drain thread: take, group, handler call
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`config`], [`policy`] | settings, defaults, rules for numbers of threads and partitions |
//! | [`route`] | a type's partition, chosen once, and its counters |
//! | `rows` | capacity and counters in weights |
//! | [`partition`] | ring, lease and waiting producers of one partition |
//! | [`queue`] | the queue: joins the others, no algorithm of its own |
//! | [`serial`] | producing where one lock keeps the producers apart |
//! | [`grow`] | new types and new partitions while the queue runs |
//! | [`drain`], [`group`], `pass` | one pass: lease, take, group; hand out, account |
//! | [`handoff`] | revoke, cycle fence, assign |
//! | [`balance`], [`rebalance`] | plans, and carrying them out |
//! | [`worker`] | what the queue knows of one drain thread |
//! | [`flush`], [`shutdown`] | waiting for everything accepted; the end |
//! | [`stats`] | snapshots in which every item is in exactly one place |
//! | [`scheduler`], `board` | drain threads that several queues share; which thread works for which queue |
//! | [`threads`] | drain threads for a program in Rust |

pub mod balance;
mod board;
pub mod config;
pub mod drain;
pub mod flush;
pub mod group;
pub mod grow;
pub mod handoff;
pub mod partition;
mod pass;
pub mod policy;
pub mod queue;
pub mod rebalance;
pub mod route;
pub(crate) mod rows;
pub mod scheduler;
pub mod serial;
pub mod shutdown;
pub mod stats;
pub mod threads;
pub mod worker;

pub use config::{BufferStrategy, Settings};
pub use drain::{Drainer, Step};
pub use group::{Batch, Grouping};
pub use partition::PartitionId;
pub use pass::Pass;
pub use policy::{PartitionPolicy, ThreadPolicy};
pub use queue::{BatchQueue, Rejection};
pub use route::{Key, Keyed, Outcome};
