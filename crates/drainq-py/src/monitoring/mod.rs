//! What the queues of a process count, for a monitoring system: read and served by a thread that never needs the GIL.
//!
//! ```text
//! GET /metrics -> server.rs -> http.rs -> observed.rs -> the counters of each queue -> text.rs
//! ```
//!
//! | file | what it holds |
//! | --- | --- |
//! | `catalog.rs` | every metric family: its name, kind, labels and help, written once |
//! | `reading.rs` | the samples of one moment |
//! | `observed.rs` | the objects whose counters are read, by name |
//! | `text.rs` | samples as Prometheus text and as OpenMetrics |
//! | `http.rs` | a request's head, and the answer to it |
//! | `server.rs` | the thread and its sockets |
//! | `metrics_server.rs` | `MetricsServer`, the class |
//! | `functions.rs` | what `drainq.monitoring` calls |
//!
//! How a queue is read is written in the queue's own room: `batch/observed.rs`, `multi/observed.rs`,
//! `sources/set_queue/observed.rs`.
//!
//! # Invariants
//! 1. The thread of `server.rs` never asks for the GIL and runs no Python code. Counters that only Python code knows
//!    are published by a Python thread as samples; the endpoint serves the last ones and says how old they are.
//! 2. Queues are read between forks ([`crate::fork::between_forks`]): so a lock that this thread takes is free in a child.
//! 3. The last reference to a queue is never given back on this thread ([`observed::Observed::let_go`]), because the end
//!    of a queue needs the GIL.

pub mod catalog;
pub mod functions;
mod http;
pub mod metrics_server;
pub mod observed;
pub mod reading;
mod server;
mod text;
