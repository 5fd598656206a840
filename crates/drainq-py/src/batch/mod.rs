//! The batch queue's classes. The algorithm is in `drainq-core`; here are the objects.
//!
//! An item's way: `produce/`, then the core's ring, then `drain_threads.rs`, then `handler.rs`.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `queue.rs` | `BatchQueue`, the class |
//! | `add_handler.rs`, `produce/`, `flush.rs`, `rebalance.rs`, `shutdown.rs` | the verbs of the class |
//! | `shared_queue.rs` | the state that a queue's object and its drain threads share, in named parts: |
//! | `routing.rs`, `batch_callables.rs`, `per_process.rs`, `user_drain_balancer.rs`, `drop_reports.rs` | the parts |
//! | `drain_threads.rs` | the drain threads, and the calls of handlers |
//! | `types/` | objects as ring items; types as numbers |
//! | `shared_scheduler.rs` | drain threads that several queues share |
//! | `handler.rs`, `handler_registry.rs` | the user's callables |
//! | `caller_count.rs`, `caller.rs` | the threads that may call them, and the last call |
//! | `config.rs`, `partition_selector.rs`, `drain_balancer.rs`, `stats.rs` | values in, values out; the configuration itself is `python/drainq/batch_config.py` |
//! | `metric_samples.rs` | the metrics of a queue |
//! | `losses.rs` | the losses of all queues, for tests of programs |
//! | `coroutines.rs` | the calls of `drainq/aio.py` |
//! | `interpreter_exit.rs` | the end of a process |

pub mod add_handler;
pub mod batch_callables;
pub mod caller;
pub mod caller_count;
pub mod config;
pub mod coroutines;
pub mod drain_balancer;
pub mod drain_threads;
pub mod drop_reports;
pub mod flush;
pub mod handler;
pub mod handler_registry;
pub mod interpreter_exit;
pub mod losses;
pub mod metric_samples;
pub mod partition_selector;
pub mod per_process;
pub mod produce;
pub mod queue;
pub mod rebalance;
pub mod routing;
pub mod shared_queue;
pub mod shared_scheduler;
pub mod shutdown;
mod stats;
pub mod types;
pub mod user_drain_balancer;
