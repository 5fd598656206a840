//! `flush`: waits until items have been handled.

use super::BatchQueue;
use crate::arguments;
use crate::batch::coroutines;
use crate::batch::types::item::Item;
use crate::ctrl_c;
use crate::deadline::Deadline;
use drainq_core::batch::flush::{Flush, Flushed};
use pyo3::prelude::*;

impl BatchQueue {
    /// Waits for a flush; false if the time ran out or a shutdown gave up on items.
    pub(super) fn wait_flushed(&self, py: Python<'_>, mut flush: Flush<Item>, deadline: Deadline) -> PyResult<bool> {
        Ok(ctrl_c::wait(py, deadline, |slice| Some(flush.wait(slice)).filter(|state| *state != Flushed::NotYet))?
            == Some(Flushed::All))
    }
}

#[pymethods]
impl BatchQueue {
    /// Wait until everything accepted before this call has been through a handler call.
    ///
    /// Args:
    ///     timeout: seconds to wait; None: as long as it takes.
    /// Returns:
    ///     True if so, False if the time ran out or a shutdown gave up on items.
    /// Raises:
    ///     WouldDeadlock: called from a handler of this queue.
    ///
    /// Example:
    ///     >>> from drainq import BatchQueue
    ///     >>> seen = []
    ///     >>> queue = BatchQueue("hits", consumer=seen.extend)
    ///     >>> queue.produce("a"), queue.flush(timeout=60), seen
    ///     (True, True, ['a'])
    ///     >>> queue.shutdown()
    ///     True
    #[pyo3(signature = (timeout=None))]
    fn flush(&self, py: Python<'_>, #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>) -> PyResult<bool> {
        let deadline = Deadline::after("timeout", timeout)?;
        self.refuse_in_handler(py, "flush")?;
        let flushed = self.wait_flushed(py, Flush::of_queue(self.shared().queue()), deadline)?;
        self.shared().drops.flush(py);
        Ok(flushed)
    }

    /// Wait as ``flush`` does, from a coroutine. The end of the last handler call resumes it.
    ///
    /// Args:
    ///     timeout: seconds to wait; None: as long as it takes.
    /// Returns:
    ///     The result of ``flush``, when awaited.
    /// Raises:
    ///     WouldDeadlock: awaited in a handler of this queue.
    #[pyo3(signature = (timeout=None))]
    fn flush_async<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        coroutines::end(slf.as_any(), slf.get().shared().number(), "flush", timeout)
    }
}
