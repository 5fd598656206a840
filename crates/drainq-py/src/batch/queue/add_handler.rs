//! `add_handler` and `remove_handler`.

use super::BatchQueue;
use crate::arguments;
use crate::batch::coroutines;
use crate::batch::handler::Handler;
use crate::deadline::Deadline;
use crate::errors;
use crate::gil;
use drainq_core::batch::config::MAX_PARTITIONS;
use drainq_core::batch::flush::Flush;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyMapping, PyTuple};

#[pymethods]
impl BatchQueue {
    /// Call ``handler`` with the batches of ``type``.
    ///
    /// Args:
    ///     type: the exact class of the items (a subclass is a type of its own), or a value
    ///         of the queue's ``dispatch_key``.
    ///     handler: a callable that takes a list, which is then its own; or an object with
    ///         ``consume(batch)`` and perhaps ``on_idle()``, called when a pass found nothing, and
    ///         ``on_close()``, called once when the queue is closed and everything was handed out. A shutdown that runs
    ///         out of time gives ``on_abandoned(batch)`` the items that no call got: if it returns True, it has stored
    ///         them, and they count as ``dead_lettered``. It can be called during ``consume``.
    ///     weight: the share of a partition that the type needs, above 0 and at most 1,048,576, which is as many
    ///         partitions as a queue can have. Matters for ``PartitionPolicy.adaptive``.
    ///
    /// A second handler for a type replaces the first from the next pass on.
    ///
    /// Raises:
    ///     TypeError: ``handler`` cannot be called with a batch or would do nothing (``async def``, a
    ///         generator function), or ``type`` is no class.
    ///     ValueError: ``weight`` is not above 0, or larger than 1,048,576.
    ///     DrainqError: the queue is shut down.
    ///
    /// Example:
    ///     >>> from drainq import BatchQueue
    ///     >>> texts = []
    ///     >>> with BatchQueue("by type") as queue:
    ///     ...     queue.add_handler(str, texts.extend)
    ///     ...     queue.add_handler(int, len)
    ///     ...     queue.produce_many([1, "a", 2, "b"])
    ///     4
    ///     >>> texts
    ///     ['a', 'b']
    #[pyo3(signature = (r#type, handler, weight=1.0), text_signature = "($self, type, handler, weight=1.0)")]
    fn add_handler(
        &self,
        py: Python<'_>,
        r#type: Bound<'_, PyAny>,
        handler: Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::weight)] weight: f64,
    ) -> PyResult<()> {
        if !self.shared().queue().is_running() {
            return Err(errors::DRAINQ_ERROR
                .error(py, format!("queue {:?} is shut down; add handlers before that", self.shared().name())));
        }
        let event_loop = self.shared().callables.event_loop.as_ref();
        let handler = Handler::new("handler", &handler, event_loop, self.shared().number())?;
        if !(weight > 0.0 && weight <= MAX_PARTITIONS as f64) {
            return Err(errors::bad_value(format!(
                "weight must be a number > 0 and at most {MAX_PARTITIONS}, which is as many partitions as a queue can \
                 have, got {weight:?}"
            )));
        }
        self.shared().routing.keys.check(&r#type)?;
        if self.shared().callables.consumer.is_some() {
            errors::warn(
                py,
                &format!(
                    "queue {:?} has a consumer that gets every batch; the handler for {} will not be called",
                    self.shared().name(),
                    r#type.repr()?
                ),
            )?;
        }
        let key = self.shared().key(&r#type)?;
        self.shared().callables.handlers.set(self.shared().queue(), key, handler, weight);
        Ok(())
    }

    /// Adds the handlers of a mapping, or none.
    #[pyo3(name = "_add_handlers", signature = (handlers))]
    pub(super) fn add_handlers(&self, handlers: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let Some(handlers) = handlers else { return Ok(()) };
        const WANTED: &str = "a dict of types and handlers, such as {Hit: store}, or None";
        handlers.cast::<PyMapping>().map_err(|_| arguments::refused("handlers", WANTED, handlers))?;
        for entry in gil::call_method(handlers, "items", [])?.try_iter()? {
            let (r#type, handler) = entry?.extract()?;
            self.add_handler(handlers.py(), r#type, handler, 1.0)?;
        }
        Ok(())
    }

    /// Decorate a function as the handler of ``type``: ``add_handler`` as a decorator.
    ///
    /// Args:
    ///     type, weight: as ``add_handler``.
    /// Returns:
    ///     A decorator, which registers a handler and returns it.
    /// Raises:
    ///     TypeError: ``type`` is no type, such as the function itself in ``@queue.handler`` without a call.
    ///     TypeError, ValueError, DrainqError: as ``add_handler``, where the function is decorated.
    ///
    /// Example:
    ///     >>> from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
    ///     >>> with BatchQueue("decorated", BatchQueueConfig(threads=ThreadPolicy.fixed(1))) as queue:
    ///     ...     @queue.handler(str)
    ///     ...     def show(batch):
    ///     ...         print(batch)
    ///     ...     _ = queue.produce_many(["a", "b"]), queue.flush()
    ///     ['a', 'b']
    #[pyo3(signature = (r#type, weight=1.0), text_signature = "($self, type, weight=1.0)")]
    fn handler<'py>(
        slf: &Bound<'py, Self>,
        r#type: Bound<'py, PyAny>,
        #[pyo3(from_py_with = arguments::weight)] weight: f64,
    ) -> PyResult<Bound<'py, PyCFunction>> {
        slf.get().shared().routing.keys.check(&r#type)?;
        let (queue, r#type) = (slf.clone().unbind(), r#type.unbind());
        PyCFunction::new_closure(slf.py(), Some(c"handler"), None, move |arguments: &Bound<'_, PyTuple>, _| {
            let (py, handler) = (arguments.py(), arguments.get_item(0)?);
            queue.get().add_handler(py, r#type.bind(py).clone(), handler.clone(), weight)?;
            Ok::<_, PyErr>(handler.unbind())
        })
    }

    /// Call :meth:`remove_handler` as a coroutine, on a thread. Cancelling it does not stop the removal.
    ///
    /// Example:
    ///     >>> import asyncio
    ///     >>> from drainq import BatchQueue
    ///     >>> async def main():
    ///     ...     async with BatchQueue("changing", handlers={str: lambda batch: None}) as queue:
    ///     ...         return await queue.remove_handler_async(str), await queue.remove_handler_async(str)
    ///     >>> asyncio.run(main())
    ///     (True, False)
    #[pyo3(signature = (r#type, timeout=None), text_signature = "($self, type, timeout=None)")]
    fn remove_handler_async<'py>(
        slf: &Bound<'py, Self>,
        r#type: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        coroutines::remove_handler(slf.as_any(), slf.get().shared().number(), r#type, timeout)
    }

    /// Remove the handler of ``type``, after the items that are queued for it were handled.
    ///
    /// Args:
    ///     type: the type of the handler.
    ///     timeout: seconds to wait for these items; None: as long as it takes. Then the handler is removed, and the
    ///         items that are still queued are unrouted.
    /// Returns:
    ///     True, or False if there was none.
    /// Raises:
    ///     WouldDeadlock: called from a handler of this queue.
    #[pyo3(signature = (r#type, timeout=None), text_signature = "($self, type, timeout=None)")]
    fn remove_handler(
        &self,
        py: Python<'_>,
        r#type: Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<bool> {
        let deadline = Deadline::after("timeout", timeout)?;
        self.shared().routing.keys.check(&r#type)?;
        let Some(key) = self.shared().routing.keys.find(&r#type)? else { return Ok(false) };
        if !self.shared().callables.handlers.contains(key) {
            return Ok(false);
        }
        self.refuse_in_handler(py, "remove_handler")?;
        self.wait_flushed(py, Flush::of_type(self.shared().queue(), key), deadline)?;
        Ok(self.shared().callables.handlers.remove(self.shared().queue(), key))
    }
}
