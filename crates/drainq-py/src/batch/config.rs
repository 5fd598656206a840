//! The settings of a queue, as `python/drainq/batch_config.py` passes them: checked, and with numbers for policies.

use crate::gil::PythonFunction;
use crate::{arguments, errors};
use drainq_core::batch::{BufferStrategy, Grouping, PartitionPolicy, Settings};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::thread::available_parallelism;
use std::time::Duration;

/// The settings of a queue. The comments are in `python/drainq/batch_config.py`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct BatchConfig {
    /// The number of drain threads.
    pub threads: usize,
    /// The policy that led to the number of threads, as Python shows it.
    pub policy: String,
    /// The name of the shared scheduler.
    pub pool: Option<String>,
    partitions: (String, usize),
    pub partition_selector: Py<PyAny>,
    pub dispatch_key: Option<Py<PyAny>>,
    buffer_size: usize,
    capacity: Option<usize>,
    blocks: bool,
    pub consumer: Option<Py<PyAny>>,
    pub on_error: Option<Py<PyAny>>,
    pub on_drop: Option<Py<PyAny>>,
    min_idle: f64,
    max_idle: f64,
    linger: f64,
    pub len_of: Option<Py<PyAny>>,
    max_batch: usize,
    pub shutdown_timeout: Option<f64>,
    pub balancer: Option<Py<PyAny>>,
    rebalance_interval: f64,
    pub r#loop: Option<Py<PyAny>>,
}

impl BatchConfig {
    /// Reads the arguments of a new queue: a configuration, and settings that win over it.
    pub fn of(
        py: Python<'_>,
        config: Option<&Bound<'_, PyAny>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        static READ: PythonFunction = PythonFunction::of("drainq.batch_config", "native_settings");
        READ.call(py, (config, settings))?.extract()
    }

    /// Returns the settings of the core's queue.
    pub fn settings(&self) -> PyResult<Settings> {
        let settings = Settings {
            threads: self.threads,
            partitions: partition_policy(&self.partitions.0, self.partitions.1),
            buffer_size: self.buffer_size,
            capacity: self.capacity,
            strategy: if self.blocks { BufferStrategy::Blocking } else { BufferStrategy::IfPossible },
            min_idle: arguments::duration("min_idle", self.min_idle)?,
            max_idle: arguments::duration("max_idle", self.max_idle)?,
            linger: arguments::duration("linger", self.linger)?,
            max_batch: self.max_batch,
            weighed: self.len_of.is_some(),
            sticky: true,
        };
        settings.validate().map_err(errors::bad_value)?;
        Ok(settings)
    }

    /// Whether a pass makes one handler call, or one per type.
    pub fn grouping(&self) -> Grouping {
        if self.consumer.is_some() { Grouping::Whole } else { Grouping::ByKey }
    }

    /// Returns the time between two calls of the balancer.
    pub fn interval(&self) -> Duration {
        Duration::from_secs_f64(self.rebalance_interval)
    }
}

fn partition_policy(rule: &str, number: usize) -> PartitionPolicy {
    match rule {
        "fixed" => PartitionPolicy::Fixed(number),
        "thread_multiply" => PartitionPolicy::ThreadMultiply(number),
        _ => PartitionPolicy::Adaptive(number),
    }
}

/// Returns the number of partitions by a policy, for this number of threads and sum of handler weights.
#[pyfunction]
pub fn resolve_partitions(rule: &str, number: usize, threads: usize, weight: f64) -> usize {
    partition_policy(rule, number).resolve(threads, weight)
}

/// Returns the number of cores that this process may use.
#[pyfunction]
pub fn core_count() -> usize {
    available_parallelism().map_or(1, usize::from)
}
