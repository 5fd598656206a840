//! The batch queue's classes. The algorithm is in `drainq-core`; here are the objects.
//!
//! An item's way: `queue/raw_method.rs`, then `shared_queue/produce.rs`, then the core's ring, then
//! `shared_queue/drain_threads.rs`, then `handler.rs`.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `queue/` | `BatchQueue`, the class, with its methods |
//! | `shared_queue/` | the state that a queue's object and its drain threads share: produce, deliver, rebalance, shut down |
//! | `routing.rs`, `batch_callables.rs`, `per_process.rs`, `drop_reports.rs` | the parts of this state |
//! | `gil_yield.rs` | the GIL, between producers and drain threads; `no_gil_yield.rs` where there is none |
//! | `waiting_tasks.rs` | the asyncio tasks that wait for room, a flush or the end |
//! | `types/` | objects as ring items; types as numbers |
//! | `shared_scheduler.rs` | drain threads that several queues share |
//! | `handler.rs`, `handler_registry.rs` | the user's callables |
//! | `caller_count.rs`, `caller.rs` | the threads that may call them, and the last call |
//! | `config.rs`, `partition_selector.rs`, `drain_balancer.rs`, `stats.rs` | values in, values out; the configuration itself is `python/drainq/batch_config.py` |
//! | `losses.rs` | the losses of all queues, for tests of programs |
//! | `coroutines.rs` | the calls of `drainq/aio.py` |
//! | `interpreter_exit.rs` | the end of a process |

pub mod batch_callables;
pub mod caller;
pub mod caller_count;
pub mod config;
pub mod coroutines;
pub mod drain_balancer;
pub mod drop_reports;
#[cfg_attr(Py_GIL_DISABLED, path = "no_gil_yield.rs")]
pub mod gil_yield;
pub mod handler;
pub mod handler_registry;
pub mod interpreter_exit;
pub mod losses;
pub mod partition_selector;
pub mod per_process;
pub mod queue;
pub mod routing;
pub mod shared_queue;
pub mod shared_scheduler;
mod stats;
pub mod types;
pub mod waiting_tasks;
