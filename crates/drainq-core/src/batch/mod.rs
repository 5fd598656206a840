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
//! | `loads` | the load of each partition, in order, by which a new type's is chosen |
//! | `weights` | capacity and counters in weights |
//! | [`partition`] | ring, ownership and waiting producers of one partition |
//! | [`queue`] | the queue: joins the others, no algorithm of its own |
//! | [`produce`] | producing where one lock keeps the producers apart |
//! | `layout` | the partitions, and the types that are routed to them; both grow while the queue runs |
//! | [`rejection`] | why items were not accepted, and how many |
//! | [`drain`], [`group`] | what a drain thread takes: begin a pass, take, group |
//! | `pass`, `step` | what a drain thread hands out and accounts for; what it does next, and how it waits |
//! | `arrivals` | whether items arrive so often that they are to gather |
//! | [`handoff`] | revoke, cycle fence, assign |
//! | [`balance`], [`rebalance`] | plans, and carrying them out |
//! | [`worker`] | what the queue knows of one drain thread |
//! | [`flush`], [`shutdown`] | waiting for everything accepted; the end |
//! | [`stats`] | snapshots in which every item is in exactly one place |
//! | [`shared_scheduler`], `board` | drain threads that several queues share; which thread works for which queue |
//! | [`threads`] | drain threads for a program in Rust |

mod arrivals;
pub mod balance;
mod board;
pub mod config;
pub mod drain;
pub mod flush;
pub mod group;
pub mod handoff;
pub mod item;
mod layout;
mod loads;
pub mod partition;
mod pass;
pub mod produce;
pub mod queue;
pub mod rebalance;
pub mod rejection;
pub mod shared_scheduler;
pub mod shutdown;
pub mod size_policies;
pub mod stats;
mod step;
pub mod threads;
pub mod type_route;
pub(crate) mod weights;
pub mod worker;

pub use config::{BufferStrategy, Settings};
pub use drain::Drainer;
pub use group::{Batch, Grouping};
pub use item::{Key, Keyed, PartitionId};
pub use pass::Pass;
pub use queue::BatchQueue;
pub use rejection::Rejection;
pub use size_policies::{PartitionPolicy, ThreadPolicy};
pub use step::Step;
pub use type_route::Outcome;
