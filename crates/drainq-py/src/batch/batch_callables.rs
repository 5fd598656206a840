//! `BatchCallables`: the user's callables for the batches of a queue.

use super::handler::Handler;
use super::handler_registry::Handlers;
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;

/// The callables that get batches: the consumer, or the handler of each type; and the error handler.
pub struct BatchCallables {
    /// The handlers by key.
    pub handlers: Handlers,
    /// The callable for every batch, if the queue has one.
    pub consumer: Option<Handler>,
    /// The callable for batches that failed.
    pub on_error: Option<Py<PyAny>>,
    /// The event loop of handlers that are `async def`.
    pub event_loop: Option<Py<PyAny>>,
}

impl BatchCallables {
    /// Keeps the `on_error` and the event loop, and reads the consumer of the queue with this number. There are no
    /// handlers yet.
    pub fn new(
        py: Python<'_>,
        consumer: Option<Py<PyAny>>,
        on_error: Option<Py<PyAny>>,
        event_loop: Option<Py<PyAny>>,
        number: u64,
    ) -> PyResult<Self> {
        let read = |consumer: Py<PyAny>| Handler::new("consumer", consumer.bind(py), event_loop.as_ref(), number);
        Ok(Self { consumer: consumer.map(read).transpose()?, handlers: Handlers::default(), on_error, event_loop })
    }

    /// Whether the consumer has `on_idle`.
    pub fn consumer_wants_idle(&self) -> bool {
        self.consumer.as_ref().is_some_and(Handler::wants_idle)
    }

    /// Returns the consumer and the handlers that have `on_close`.
    pub fn with_on_close(&self, py: Python<'_>) -> impl Iterator<Item = Handler> + use<> {
        let consumer = self.consumer.as_ref().filter(|consumer| consumer.wants_close());
        consumer.map(|consumer| consumer.clone_ref(py)).into_iter().chain(self.handlers.with_on_close(py))
    }

    /// Shows the garbage collector the user's objects.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.handlers.traverse(visit)?;
        self.consumer.iter().flat_map(Handler::held).try_for_each(|held| visit.call(held))?;
        visit.call(&self.on_error)?;
        visit.call(&self.event_loop)
    }
}
