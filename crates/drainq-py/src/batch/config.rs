//! `BatchQueueConfig`: the settings that a queue is made with.

#![allow(unused_parens)] // around the defaults of the table, each of which is one token tree

use super::buffer_strategy::BufferStrategy;
use super::config_arguments;
use super::config_table::{Argument, Kept, config_table};
use super::coroutines;
use super::handler::Handler;
use super::partition_selector::{PartitionSelector, SelectorRule};
use super::size_policies::{PartitionPolicy, ThreadPolicy};
use crate::arguments::{self, refused};
use crate::callables::{self, check_if_given};
use crate::errors;
use crate::pickling::{self, Recipe};
use drainq_core::batch::config::{
    BUFFER_SIZE, BufferStrategy as CoreStrategy, MAX_BATCH, MAX_IDLE, MIN_IDLE, REBALANCE_INTERVAL, Settings,
};
use drainq_core::batch::{self as core, Grouping};
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::time::Duration;

config_table! {
    /// The settings of a :class:`BatchQueue`. All are keyword-only and readable afterwards.
    ///
    /// Seconds are a number, or a ``datetime.timedelta``.
    ///
    /// A configuration pickles and copies, with all settings; its callables travel as the pickler can send them: a lambda
    /// needs ``cloudpickle``, which Spark uses.
    ///
    /// Args:
    pub struct BatchQueueConfig {
        ///     threads: a :class:`ThreadPolicy`, or the number of threads: the queue gets drain threads of its own.
        threads: Option<ThreadPolicy> = None => Option<ThreadPolicy>,
        ///     shared_scheduler: ``(name, ThreadPolicy)``, or a number of threads instead of the policy: the queue shares the threads of a named
        ///         scheduler. Give exactly one of ``threads`` and ``shared_scheduler``.
        shared_scheduler: Option<(String, ThreadPolicy)> = None => Option<(String, ThreadPolicy)>,
        ///     partitions: a :class:`PartitionPolicy`, or the number of partitions; default one partition.
        partitions: Option<PartitionPolicy> = None => PartitionPolicy,
        ///     partition_selector: a :class:`PartitionSelector` or a callable
        ///         ``(item, count) -> int``; default ``PartitionSelector.type_hash()``.
        partition_selector: Option<Py<PyAny>> = None => Py<PyAny>,
        ///     dispatch_key: a callable ``item -> hashable``: items of one key are of one type; default the
        ///         item's exact class. An ``operator.itemgetter`` or ``attrgetter`` of one name costs least.
        dispatch_key: Option<Py<PyAny>> = None => Option<Py<PyAny>>,
        ///     buffer_size: items that fit into one partition; default 10,000, at most 2**30.
        buffer_size: i64 = (BUFFER_SIZE as i64) => usize,
        ///     capacity: items that fit into all partitions together; None: as many as their ``buffer_size`` allows. With
        ///         many partitions it keeps the batches of each type large where memory for the whole is small.
        capacity: Option<i64> = None => Option<usize>,
        ///     strategy: a :class:`BufferStrategy`, or its name in letters of any case, such as ``"if_possible"``;
        ///         default ``BLOCKING``.
        strategy: BufferStrategy = (BufferStrategy::BLOCKING) => BufferStrategy,
        ///     consumer: a callable for every batch, whatever the types. Without one, batches go to
        ///         the handlers that ``add_handler`` registers. With several drain threads it may be
        ///         called by several at once.
        consumer: Option<Py<PyAny>> = None => Option<Py<PyAny>>,
        ///     on_error: a callable ``(batch, error)`` for batches whose handler raised; default
        ///         is to log them.
        on_error: Option<Py<PyAny>> = None => Option<Py<PyAny>>,
        ///     on_drop: a callable ``(reason, count)``, called with the number of items that are not handled,
        ///         for each reason (``full``, ``closed``, ``unrouted``, ``abandoned``) at most once a second.
        on_drop: Option<Py<PyAny>> = None => Option<Py<PyAny>>,
        ///     min_idle, max_idle: seconds; a drain thread that finds nothing while items arrive more often than every
        ///         10 microseconds (times the drain threads, 50 at most) lets them gather for ``min_idle``; otherwise the
        ///         next item wakes it at once. With
        ///         ``on_idle`` handlers it wakes by itself too: after ``min_idle``, then twice as long each time up to
        ///         ``max_idle``.
        min_idle: f64 = (MIN_IDLE.as_secs_f64()) => f64,
        max_idle: f64 = (MAX_IDLE.as_secs_f64()) => f64,
        ///     linger: seconds that a drain thread which was idle lets items gather before it takes
        ///         the first; default 0. A partition that is half full ends it. Not on a shared scheduler.
        linger: f64 = 0.0 => f64,
        ///     len_of: a callable ``item -> int`` that returns the weight of an item, such as the rows of
        ///         an Arrow record batch; at most 2**31 - 1. ``buffer_size``, ``capacity`` and all counters are then in
        ///         rows.
        len_of: Option<Py<PyAny>> = None => Option<Py<PyAny>>,
        ///     max_batch: items that a handler gets at most in one call; default 8,192.
        max_batch: i64 = (MAX_BATCH as i64) => usize,
        ///     shutdown_timeout: seconds that ``shutdown`` waits by default; None: as long as it takes.
        shutdown_timeout: Option<f64> = None => Option<f64>,
        ///     balancer: a :class:`DrainBalancer`, an object with ``assign``, or a callable of that
        ///         shape; None: partitions stay with their threads.
        balancer: Option<Py<PyAny>> = None => Option<Py<PyAny>>,
        ///     rebalance_interval: seconds between two calls of the balancer; default 10.
        rebalance_interval: f64 = (REBALANCE_INTERVAL.as_secs_f64()) => f64,
        ///     loop: an asyncio event loop: ``async def`` handlers and consumers run there, and the drain thread waits
        ///         for them. It has to run, and to outlive the queue. None: ``async def`` is refused.
        r#loop: Option<Py<PyAny>> = None => Option<Py<PyAny>>,
    }
    /// Raises:
    ///     ValueError, TypeError: with the value that is wrong. A callable that would do nothing (``async def``, a
    ///         generator function), or that takes other arguments, is a TypeError.
    ///
    /// Example:
    ///     >>> from drainq import BatchQueueConfig, ThreadPolicy
    ///     >>> BatchQueueConfig(threads=ThreadPolicy.fixed(1), buffer_size=500).buffer_size
    ///     500
    ///
    /// Source: ``BatchQueueConfig`` in SkyWalking's ``library-batch-queue``.
    end
}

/// Makes the configuration of a queue that is given `config` and `settings`. The settings win; without both, the queue
/// has one thread.
#[pyfunction]
#[pyo3(signature = (config, settings))]
pub fn queue_config<'py>(
    py: Python<'py>,
    config: Option<&Bound<'py, PyAny>>,
    settings: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, BatchQueueConfig>> {
    const WANTED: &str = "a BatchQueueConfig, such as BatchQueueConfig(threads=1), or None";
    let shared = match config {
        Some(config) => BatchQueueConfig::by_name(config.cast().map_err(|_| refused("config", WANTED, config))?)?,
        None => PyDict::new(py),
    };
    let all = BatchQueueConfig::changed(shared, settings)?;
    if config.is_none() && !is_given(&all, "threads")? && !is_given(&all, "shared_scheduler")? {
        all.set_item("threads", 1)?;
    }
    Ok(py.get_type::<BatchQueueConfig>().call((), Some(&all))?.cast_into()?)
}

/// Whether a setting is there, and is not None.
fn is_given(settings: &Bound<'_, PyDict>, name: &str) -> PyResult<bool> {
    Ok(settings.get_item(name)?.is_some_and(|value| !value.is_none()))
}

/// Checks a balancer: an object with `assign`, or a callable of its shape.
fn check_balancer(balancer: &Bound<'_, PyAny>) -> PyResult<()> {
    const SHAPE: [&str; 3] = ["throughput", "owners", "threads"];
    match balancer.getattr_opt("assign")? {
        Some(assign) => callables::check("balancer.assign", &assign, &SHAPE),
        None if balancer.is_callable() => callables::check("balancer", balancer, &SHAPE),
        None => Err(errors::bad_type(format!(
            "balancer must have a method assign(throughput, owners, threads), or be a callable of that shape, got {}",
            errors::shown(balancer)?
        ))),
    }
}

#[pymethods]
impl BatchQueueConfig {
    /// The same settings with some changed.
    ///
    /// Args:
    ///     changes: settings by name. One of ``threads`` and ``shared_scheduler`` takes the place of the other.
    /// Returns:
    ///     A new configuration.
    ///
    /// Example:
    ///     >>> from drainq import BatchQueueConfig, ThreadPolicy
    ///     >>> config = BatchQueueConfig(threads=ThreadPolicy.fixed(1))
    ///     >>> config.replace(buffer_size=5).buffer_size
    ///     5
    ///
    /// Source: ``dataclasses.replace``.
    #[pyo3(signature = (**changes))]
    fn replace<'py>(slf: &Bound<'py, Self>, changes: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyAny>> {
        let settings = Self::changed(Self::by_name(slf)?, changes)?;
        slf.get_type().call((), Some(&settings))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Recipe<'py>> {
        pickling::made_of(slf, Self::by_name(slf)?)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let whose = match (&self.threads, &self.shared_scheduler) {
            (Some(threads), _) => format!("threads={}", Bound::new(py, *threads)?.repr()?),
            (None, Some((name, threads))) => {
                format!("shared_scheduler=({name:?}, {})", Bound::new(py, *threads)?.repr()?)
            }
            (None, None) => String::new(),
        };
        Ok(format!(
            "BatchQueueConfig({whose}, partitions={}, buffer_size={}{}, strategy={:?}, max_batch={})",
            Bound::new(py, self.partitions)?.repr()?,
            self.buffer_size,
            self.capacity.map(|capacity| format!(", capacity={capacity}")).unwrap_or_default(),
            CoreStrategy::from(self.strategy),
            self.max_batch,
        ))
    }
}

impl BatchQueueConfig {
    /// Refuses settings that are wrong, or that do not go together.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        if self.threads.is_some() == self.shared_scheduler.is_some() {
            return Err(errors::bad_value(format!(
                "give exactly one of threads=ThreadPolicy... and shared_scheduler=(name, ThreadPolicy...), got {}",
                if self.threads.is_some() { "both" } else { "neither" }
            )));
        }
        if let Some((name, _)) = &self.shared_scheduler {
            arguments::check_name("the name of a shared_scheduler", name)?;
        }
        let callable = |name, held: &Option<Py<PyAny>>, arguments: &[&str]| {
            check_if_given(name, held.as_ref().map(|held| held.bind(py)), arguments)
        };
        callable("dispatch_key", &self.dispatch_key, &["item"])?;
        callable("len_of", &self.len_of, &["item"])?;
        callable("on_error", &self.on_error, &["batch", "error"])?;
        callable("on_drop", &self.on_drop, &["reason", "count"])?;
        let selector = self.partition_selector.bind(py);
        if !selector.is_instance_of::<PartitionSelector>() {
            callables::check("partition_selector", selector, &["item", "count"])?;
        }
        let event_loop = self.r#loop.as_ref().map(|event_loop| event_loop.bind(py));
        event_loop.map(coroutines::check_loop).transpose()?;
        let runs_on = event_loop.map(|event_loop| (event_loop, 0));
        self.consumer.as_ref().map(|consumer| Handler::new("consumer", consumer.bind(py), runs_on)).transpose()?;
        self.balancer.as_ref().map(|balancer| check_balancer(balancer.bind(py))).transpose()?;
        if self.linger > 0.0 && self.shared_scheduler.is_some() {
            return Err(errors::bad_value(format!("linger needs threads of the queue's own, got {}", self.linger)));
        }
        let interval = self.rebalance_interval;
        if arguments::duration("rebalance_interval", interval)?.is_zero() {
            return Err(errors::bad_value(format!("rebalance_interval must be > 0 seconds, got {interval}")));
        }
        self.shutdown_timeout.map(|timeout| arguments::duration("shutdown_timeout", timeout)).transpose()?;
        self.settings(py)?.validate().map_err(errors::bad_value)
    }

    /// Returns the names of all settings. `loop` is a keyword of Rust.
    fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().map(|name| name.trim_start_matches("r#"))
    }

    /// Returns all settings by name, as the constructor takes them.
    fn by_name<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let settings = PyDict::new(slf.py());
        for name in Self::names() {
            settings.set_item(name, slf.getattr(name)?)?;
        }
        Ok(settings)
    }

    /// Puts `changes` over `settings`. One of `threads` and `shared_scheduler` takes the place of the other.
    fn changed<'py>(
        settings: Bound<'py, PyDict>,
        changes: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let Some(changes) = changes else { return Ok(settings) };
        for name in changes.keys() {
            Self::check_known(&name)?;
        }
        for (one, other) in [("threads", "shared_scheduler"), ("shared_scheduler", "threads")] {
            if is_given(changes, one)? {
                settings.set_item(other, settings.py().None())?;
            }
        }
        settings.update(changes.as_mapping())?;
        Ok(settings)
    }

    /// Refuses a setting that does not exist, with the name that is most like it.
    fn check_known(name: &Bound<'_, PyAny>) -> PyResult<()> {
        let (known, text) = (Self::names().collect::<Vec<_>>(), name.extract::<String>()?);
        if known.contains(&text.as_str()) {
            return Ok(());
        }
        let near = name.py().import("difflib")?.call_method1("get_close_matches", (name, &known, 1))?;
        let hint = match near.try_iter()?.next() {
            Some(near) => format!("did you mean {}?", near?.repr()?),
            None => format!("the settings are {}", known.join(", ")),
        };
        Err(errors::bad_type(format!("there is no setting {}: {hint}", errors::shown(name)?)))
    }

    /// Returns the policy of the threads that will drain the queue.
    pub fn thread_policy(&self) -> core::ThreadPolicy {
        let shared = self.shared_scheduler.as_ref().map(|(_, policy)| policy);
        self.threads.as_ref().or(shared).expect("checked when it was made").0
    }

    /// Returns the settings of the core's queue.
    pub fn settings(&self, py: Python<'_>) -> PyResult<Settings> {
        let sticky = self
            .partition_selector
            .bind(py)
            .cast::<PartitionSelector>()
            .is_ok_and(|selector| matches!(selector.get().0, SelectorRule::TypeHash));
        Ok(Settings {
            threads: self.thread_policy(),
            partitions: self.partitions.0,
            buffer_size: self.buffer_size,
            capacity: self.capacity,
            strategy: self.strategy.into(),
            min_idle: arguments::duration("min_idle", self.min_idle)?,
            max_idle: arguments::duration("max_idle", self.max_idle)?,
            linger: arguments::duration("linger", self.linger)?,
            max_batch: self.max_batch,
            weighed: self.len_of.is_some(),
            sticky,
        })
    }

    /// Whether a queue made from `other` would differ from one made from this in its callables only.
    pub fn same_infrastructure(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        let shared = |config: &Self| config.shared_scheduler.as_ref().map(|(name, _)| name.clone());
        Ok(self.settings(py)? == other.settings(py)?
            && shared(self) == shared(other)
            && self.balancer.is_some() == other.balancer.is_some()
            && self.rebalance_interval == other.rebalance_interval
            && self.shutdown_timeout == other.shutdown_timeout)
    }

    /// Whether a pass makes one handler call, or one per type.
    pub fn grouping(&self) -> Grouping {
        if self.consumer.is_some() { Grouping::Whole } else { Grouping::ByKey }
    }

    /// Seconds that a shutdown waits by default.
    pub fn default_shutdown_timeout(&self) -> Option<f64> {
        self.shutdown_timeout
    }

    /// Returns the time between two calls of the balancer.
    pub fn interval(&self) -> Duration {
        Duration::from_secs_f64(self.rebalance_interval)
    }
}
