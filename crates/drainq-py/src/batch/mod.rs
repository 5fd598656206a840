//! The batch queue's classes. The algorithm is in `drainq-core`; here are the objects.
//!
//! An item's way: `produce/`, then the core's ring, then `drain.rs`, then `handler.rs`.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `queue.rs` | `BatchQueue`, the class |
//! | `shared.rs` | what a queue's object and its drain threads share |
//! | `produce/` | the way of an item into its partition |
//! | `drain.rs` | the drain threads, and the calls of handlers |
//! | `rebalance.rs` | the balancer's thread, and its plans |
//! | `types/` | objects as ring items; types as numbers |
//! | `scheduler.rs` | drain threads that several queues share |
//! | `handler.rs`, `handlers.rs`, `drops.rs` | the user's callables |
//! | `callers.rs`, `caller.rs` | the threads that may call them, and the last call |
//! | `config.rs`, `policy.rs`, `stats.rs` | values in, values out |
//! | `manager.rs` | the queues by name |
//! | `shutdown.rs`, `exit.rs` | the end of a queue, of a process |

pub mod caller;
pub mod callers;
pub mod config;
pub mod drain;
pub mod drops;
pub mod exit;
pub mod handler;
pub mod handlers;
pub mod manager;
pub mod policy;
pub mod produce;
pub mod queue;
pub mod rebalance;
pub mod scheduler;
pub mod shared;
pub mod shutdown;
pub mod stats;
pub mod types;
