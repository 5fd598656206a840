//! The arguments of `BatchQueueConfig` that have a type of this package, each read by the function of its name.
//!
//! Where a plain value can mean one thing only, it is taken: `threads=2`, `partitions=4`, `strategy="blocking"`.

use super::buffer_strategy::BufferStrategy;
use super::size_policies::{PartitionPolicy, ThreadPolicy};
pub use crate::arguments::{
    buffer_size, capacity, linger, max_batch, max_idle, min_idle, rebalance_interval, shutdown_timeout,
};
use crate::arguments::{is_whole, refused, text, whole};
use crate::errors;
use drainq_core::batch as core;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Makes readers of callables and other objects, which are checked when the configuration is whole.
macro_rules! objects {
    ($($name:ident)*) => {
        $(
            /// Takes the parameter of this name as it is; its shape is checked with the whole configuration.
            pub fn $name(value: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
                Ok((!value.is_none()).then(|| value.clone().unbind()))
            }
        )*
    };
}

objects! { partition_selector dispatch_key consumer on_error on_drop len_of balancer r#loop }

/// Reads `threads`: a policy, or the number of threads.
pub fn threads(value: &Bound<'_, PyAny>) -> PyResult<Option<ThreadPolicy>> {
    if value.is_none() { Ok(None) } else { policy("threads", value).map(Some) }
}

fn policy(name: &str, value: &Bound<'_, PyAny>) -> PyResult<ThreadPolicy> {
    if is_whole(value) {
        let count = super::size_policies::count(name, whole(name, value)?)?;
        return core::ThreadPolicy::fixed(count).map(ThreadPolicy).map_err(|why| unfit(name, value, &why));
    }
    const WANTED: &str = "a ThreadPolicy, such as ThreadPolicy.cpu_cores(1.0), or a number of threads (int)";
    value.cast::<ThreadPolicy>().map(|policy| *policy.get()).map_err(|_| refused(name, WANTED, value))
}

/// Reads `shared_scheduler`: a name, and a policy or the number of threads.
pub fn shared_scheduler(value: &Bound<'_, PyAny>) -> PyResult<Option<(String, ThreadPolicy)>> {
    if value.is_none() {
        return Ok(None);
    }
    const WANTED: &str = "a tuple of a name and a ThreadPolicy, such as (\"io\", ThreadPolicy.fixed(8))";
    match value.cast::<PyTuple>() {
        Ok(pair) if pair.len() == 2 => Ok(Some((
            text("shared_scheduler[0]", &pair.get_item(0)?)?,
            policy("shared_scheduler[1]", &pair.get_item(1)?)?,
        ))),
        _ => Err(refused("shared_scheduler", WANTED, value)),
    }
}

/// Reads `partitions`: a policy, or the number of partitions.
pub fn partitions(value: &Bound<'_, PyAny>) -> PyResult<Option<PartitionPolicy>> {
    if value.is_none() {
        return Ok(None);
    }
    if is_whole(value) {
        let count = super::size_policies::count("partitions", whole("partitions", value)?)?;
        let fixed = core::PartitionPolicy::fixed(count).map(PartitionPolicy);
        return fixed.map(Some).map_err(|why| unfit("partitions", value, &why));
    }
    const WANTED: &str = "a PartitionPolicy, such as PartitionPolicy.adaptive(), or a number of partitions (int)";
    let policy = value.cast::<PartitionPolicy>().map(|policy| *policy.get());
    policy.map(Some).map_err(|_| refused("partitions", WANTED, value))
}

/// Reads `strategy`: a strategy, or its name.
pub fn strategy(value: &Bound<'_, PyAny>) -> PyResult<BufferStrategy> {
    const WANTED: &str = "BufferStrategy.BLOCKING or \"blocking\", or BufferStrategy.IF_POSSIBLE or \"if_possible\"";
    if let Ok(strategy) = value.cast::<BufferStrategy>() {
        return Ok(*strategy.get());
    }
    let named = value.extract::<String>().unwrap_or_default().to_ascii_lowercase();
    match named.as_str() {
        "blocking" => Ok(BufferStrategy::BLOCKING),
        "if_possible" => Ok(BufferStrategy::IF_POSSIBLE),
        _ => Err(refused("strategy", WANTED, value)),
    }
}

fn unfit(name: &str, value: &Bound<'_, PyAny>, why: &str) -> PyErr {
    errors::bad_value(format!("{name}={value}: {why}"))
}
