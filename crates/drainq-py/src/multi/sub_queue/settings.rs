//! The settings of a sub-queue, which can be changed while items wait: reasons, priority, capacity, weight.

use super::SubQueue;
use crate::arguments;
use crate::multi::values;
use pyo3::prelude::*;

#[pymethods]
impl SubQueue {
    /// Serve the items again.
    ///
    /// Args:
    ///     reason: the reason of :meth:`disable` to remove; None removes all. The sub-queue is served
    ///         again once no reason is left. An unknown reason changes nothing.
    #[pyo3(signature = (reason=None))]
    fn enable(&self, #[pyo3(from_py_with = arguments::any_reason)] reason: Option<String>) {
        self.core.enable(reason.as_deref());
    }

    /// Stop serving the items, for one more reason. They keep their order and their turn.
    ///
    /// A disabled sub-queue still accepts items up to its capacity.
    ///
    /// Args:
    ///     reason: a name, which :meth:`enable` removes; the same name a second time changes nothing.
    ///
    /// Example:
    ///     >>> from drainq import MultiQueue
    ///     >>> mail = MultiQueue().add_sub_queue("mail")
    ///     >>> mail.disable("paused"); mail.disable("no disk space"); mail.enable("paused")
    ///     >>> mail.enabled, mail.disabled_by
    ///     (False, ['no disk space'])
    ///
    /// Source: ``SubQueue.enable(false)``; reasons are drainq's.
    #[pyo3(signature = (reason=String::new()), text_signature = "($self, reason='')")]
    fn disable(&self, #[pyo3(from_py_with = arguments::reason)] reason: String) {
        self.core.disable(reason);
    }

    /// Whether the items are served: no reason of :meth:`disable` is left.
    #[getter]
    fn enabled(&self) -> bool {
        self.core.disabled_by().is_empty()
    }

    /// The reasons why it is disabled, sorted.
    #[getter]
    fn disabled_by(&self) -> Vec<String> {
        self.core.disabled_by()
    }

    /// The priority, lower is served first. Setting it moves the sub-queue, with its items, to the
    /// place after the last one of that priority.
    #[getter]
    fn priority(&self) -> i64 {
        self.core.settings().priority
    }

    #[setter]
    fn set_priority(&self, #[pyo3(from_py_with = arguments::priority)] priority: i64) {
        self.core.set_priority(priority);
    }

    /// How many items fit, at least 1; None is unbounded. Lowering it keeps what is there.
    #[getter]
    fn capacity(&self) -> Option<usize> {
        arguments::capacity_out(self.core.settings().capacity)
    }

    #[setter]
    fn set_capacity(&self, #[pyo3(from_py_with = arguments::capacity)] capacity: Option<i64>) -> PyResult<()> {
        let capacity = arguments::capacity_in_items(capacity)?;
        self.core.set_capacity(capacity);
        Ok(())
    }

    /// The number of turns in a row, at least 1.
    #[getter]
    fn weight(&self) -> u32 {
        self.core.settings().weight
    }

    #[setter]
    fn set_weight(&self, #[pyo3(from_py_with = arguments::turns)] weight: i64) -> PyResult<()> {
        let weight = values::weight_in(weight)?;
        self.core.set_weight(weight);
        Ok(())
    }
}
