//! `get`, `get_nowait`, `get_item` and `peek`: one item.

use super::{MultiQueue, empty, shut_down};
use crate::arguments;
use crate::deadline::MayWait;
use crate::waiting::blocking::until;
use pyo3::prelude::*;

impl MultiQueue {
    #[cold]
    fn get_slowly(&self, py: Python<'_>, may_wait: MayWait) -> PyResult<Py<PyAny>> {
        until(py, self.core.getter(), may_wait, |_, _| self.take_or_wait(py))?.ok_or_else(|| empty(py))
    }
}

#[pymethods]
impl MultiQueue {
    /// Take the item whose turn it is, waiting for one if there is none.
    ///
    /// The wait releases the GIL and ends early on Ctrl-C; no item is lost by it.
    ///
    /// Args:
    ///     block: False to raise at once when there is nothing.
    ///     timeout: seconds to wait for an item; None waits for ever.
    /// Returns:
    ///     The item.
    /// Raises:
    ///     queue.Empty: no enabled sub-queue held an item (in time).
    ///     ShutDown: the multi-queue was shut down and nothing can be got any more.
    ///     ValueError: ``timeout`` is negative or not a number.
    ///
    /// Source: ``take`` and ``poll``; the signature is that of ``queue.Queue.get``.
    #[pyo3(signature = (block=true, timeout=None))]
    fn get(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::block)] block: bool,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        if timeout.is_none() && block {
            return match self.take_or_wait(py)? {
                Some(item) => Ok(item),
                None => self.get_slowly(py, MayWait::for_ever()),
            };
        }
        self.get_slowly(py, MayWait::new(block, timeout)?)
    }

    /// Take the item whose turn it is: ``get(block=False)``.
    ///
    /// Raises:
    ///     queue.Empty: there is none.
    ///     ShutDown: as :meth:`get`.
    fn get_nowait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.take_or_wait(py)?.ok_or_else(|| empty(py))
    }

    /// Take the item whose turn it is, with the key of its sub-queue.
    ///
    /// Args:
    ///     block, timeout: as :meth:`get`.
    /// Returns:
    ///     ``(key, item)``.
    /// Raises:
    ///     queue.Empty, ShutDown, ValueError: as :meth:`get`.
    #[pyo3(signature = (block=true, timeout=None))]
    fn get_item(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::block)] block: bool,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let (may_wait, core) = (MayWait::new(block, timeout)?, &self.core);
        let taken = until(py, core.getter(), may_wait, |_, _| {
            self.selection.take_labelled(py, core)?.or_wait(|| shut_down(py))
        })?;
        let (label, item) = taken.ok_or_else(|| empty(py))?;
        Ok((label.key.clone_ref(py), item))
    }

    /// Return the item that the next get would take, without taking it.
    ///
    /// Raises:
    ///     queue.Empty: there is none.
    ///     ShutDown: as :meth:`get`.
    fn peek(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.selection.peek(py, &self.core)?.or_wait(|| shut_down(py))?.ok_or_else(|| empty(py))
    }
}
