//! The batch queue's classes. The algorithm is in `drainq-core`; here are the objects.
//!
//! An item's way: `produce/`, then the core's ring, then `drain.rs`, then `handler.rs`.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `queue.rs` | `BatchQueue`, the class |
//! | `add_handler.rs`, `produce/`, `flush.rs`, `rebalance.rs`, `shutdown.rs` | the verbs of the class |
//! | `shared.rs` | what a queue's object and its drain threads share, in named parts: |
//! | `routing.rs`, `delivery.rs`, `process.rs`, `balancing.rs`, `drops.rs` | the parts |
//! | `drain.rs` | the drain threads, and the calls of handlers |
//! | `types/` | objects as ring items; types as numbers |
//! | `scheduler.rs` | drain threads that several queues share |
//! | `handler.rs`, `handlers.rs` | the user's callables |
//! | `callers.rs`, `caller.rs` | the threads that may call them, and the last call |
//! | `config.rs`, `policy.rs`, `strategy.rs`, `selector.rs`, `balancer.rs`, `stats.rs` | values in, values out |
//! | `manager.rs` | the queues by name |
//! | `exit.rs` | the end of a process |

pub mod add_handler;
pub mod balancer;
pub mod balancing;
pub mod caller;
pub mod callers;
pub mod config;
pub mod delivery;
pub mod drain;
pub mod drops;
pub mod exit;
pub mod flush;
pub mod handler;
pub mod handler_registry;
pub mod manager;
pub mod policy;
pub mod process;
pub mod produce;
pub mod queue;
pub mod rebalance;
pub mod routing;
pub mod scheduler;
pub mod selector;
pub mod shared;
pub mod shutdown;
pub mod stats;
pub mod strategy;
pub mod types;
