//! `SetQueueStats`: what a set queue's counters said at one moment.

use crate::pickling;
use pyo3::prelude::*;

/// Counters of a ``SetQueue``, taken at one moment.
#[pyclass(frozen, get_all, module = "drainq")]
pub struct SetQueueStats {
    /// Items waiting in the queue.
    pub(super) size: usize,
    /// Items taken and not yet done (``in_flight="ack"``).
    pub(super) in_flight: usize,
    /// Items that went in.
    pub(super) put: u64,
    /// Items that came out.
    pub(super) got: u64,
    /// Items refused because an equal one was known.
    pub(super) duplicates: u64,
    /// Threads that wait for an item now.
    pub(super) blocked_getters: usize,
    /// Threads that wait for room now.
    pub(super) blocked_putters: usize,
}

#[pymethods]
impl SetQueueStats {
    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        pickling::refuse(slf, "only a queue makes one", "its numbers")
    }

    fn __repr__(&self) -> String {
        format!(
            "SetQueueStats(size={}, in_flight={}, put={}, got={}, duplicates={}, blocked_getters={}, blocked_putters={})",
            self.size, self.in_flight, self.put, self.got, self.duplicates, self.blocked_getters, self.blocked_putters
        )
    }
}
