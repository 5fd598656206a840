//! The metrics endpoint: a thread that never needs the GIL reads and serves the counters of a process.
//!
//! ```text
//! GET /metrics -> endpoint_thread.rs -> http_answer.rs -> object_registry.rs -> the counters of each queue
//!              -> prometheus_text.rs
//! ```
//!
//! | file | what it holds |
//! | --- | --- |
//! | `catalog.rs` | every metric family: its name, kind, labels and help, written once |
//! | `histogram.rs` | counts of values by upper bound, changed without a lock |
//! | `sample.rs` | the samples of one moment |
//! | `object_registry.rs` | the objects whose counters are read, by name |
//! | `prometheus_text.rs` | samples as Prometheus text and as OpenMetrics |
//! | `http_answer.rs` | a request's head, and the answer to it |
//! | `endpoint_thread.rs` | the thread and its sockets |
//! | `metrics_server.rs` | `MetricsServer`, the class |
//! | `python_functions.rs` | the functions for `drainq.monitoring` |
//!
//! The reader of each kind of queue is in the queue's folder: `batch/shared_queue/metric_samples.rs`,
//! `multi/metric_samples.rs`, `sources/set_queue/metric_samples.rs`.
//!
//! # Invariants
//! 1. The thread of `endpoint_thread.rs` never asks for the GIL and runs no Python code. Counters that only Python code
//!    knows are published by a Python thread as samples. The endpoint serves the last samples, with their age.
//! 2. Queues are read between forks ([`crate::fork::between_forks`]), so a lock of this thread is free in a child.
//! 3. The last reference to a queue is never given back on this thread ([`object_registry::Observed::let_go`]), because
//!    the end of a queue needs the GIL.

pub mod catalog;
mod endpoint_thread;
pub mod histogram;
mod http_answer;
pub mod metrics_server;
pub mod object_registry;
mod prometheus_text;
pub mod python_functions;
pub mod sample;
