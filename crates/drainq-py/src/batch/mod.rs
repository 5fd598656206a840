//! The batch queue's classes. The algorithm is in `drainq-core`; here are the objects.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `queue.rs` | `BatchQueue`, the class |
//! | `shared.rs` | what a queue's object and its drain threads share |
//! | `produce.rs` | the way of an item into its partition |
//! | `hot.rs`, `lane.rs`, `turn.rs` | produce at its cheapest; the GIL, handed over in time |
//! | `drain.rs` | the drain threads, and the calls of handlers |
//! | `item.rs`, `keys.rs`, `addresses.rs` | objects as words; types as numbers |
//! | `pool.rs` | drain threads that several queues share |
//! | `handler.rs`, `drops.rs` | the user's callables |
//! | `callers.rs` | the threads that may call them, and the last call |
//! | `config.rs`, `policy.rs`, `stats.rs` | values in, values out |
//! | `manager.rs`, `lifecycle.rs` | names; the end of queues |

pub mod addresses;
pub mod callers;
pub mod config;
pub mod drain;
pub mod drops;
pub mod handler;
pub mod hot;
pub mod item;
pub mod keys;
pub mod lane;
pub mod lifecycle;
pub mod manager;
pub mod policy;
pub mod pool;
pub mod produce;
pub mod queue;
pub mod shared;
pub mod stats;
pub mod turn;
