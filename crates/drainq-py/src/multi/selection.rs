//! The selection, in the core or by a Python object, of the sub-queue from which the next item comes.

use super::core_types::{Core, Wait};
use super::label::Label;
use super::sub_queue::{SubQueue, left, shown};
use crate::waiting::queue::Taken;
use crate::{errors, gil};
use drainq_core::multi::{Gathered, Nothing, Order};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::sync::Arc;

impl<T> From<Result<T, Nothing>> for Taken<T> {
    fn from(taken: Result<T, Nothing>) -> Self {
        match taken {
            Ok(taken) => Self::Got(taken),
            Err(Nothing::Empty) => Self::Empty,
            Err(Nothing::ShutDown) => Self::ShutDown,
        }
    }
}

/// An item, and the label of its sub-queue.
pub type Labelled = (Arc<Label>, Py<PyAny>);

/// The rule that chooses the next sub-queue.
pub enum SelectionRule {
    /// The core chooses, in this order.
    Native(Order),
    /// An object with `select(groups)`.
    Custom(Py<PyAny>),
}

impl Default for SelectionRule {
    fn default() -> Self {
        Self::Native(Order::Priority)
    }
}

impl SelectionRule {
    /// Reads the argument `selection`.
    pub fn new(selection: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(name) = selection.extract::<String>() {
            return match name.as_str() {
                "priority" => Ok(Self::Native(Order::Priority)),
                "weighted" => Ok(Self::Native(Order::Weighted)),
                _ => Err(errors::bad_value(format!(
                    "selection must be \"priority\", \"weighted\" or an object with select(groups), got {name:?}"
                ))),
            };
        }
        let is_selector = selection.getattr_opt("select")?.is_some_and(|method| method.is_callable());
        if !is_selector {
            return Err(errors::bad_type(format!(
                "selection must be \"priority\", \"weighted\" or an object with select(groups), got {}",
                errors::shown(selection)
            )));
        }
        Ok(Self::Custom(selection.clone().unbind()))
    }

    /// Returns the order in which the core serves the sub-queues.
    pub fn order(&self) -> Order {
        match self {
            Self::Native(order) => *order,
            Self::Custom(_) => Order::Priority,
        }
    }

    /// Takes the next item.
    pub fn take(&self, py: Python<'_>, core: &Core) -> PyResult<Taken<Py<PyAny>>> {
        match self {
            Self::Native(_) => Ok(core.try_get().map(|item| left(py, item)).into()),
            Self::Custom(object) => choose(py, core, object, |sub| Ok(sub.core().try_get().map(|item| left(py, item)))),
        }
    }

    /// Takes the next item, with the label of its sub-queue.
    pub fn take_labelled(&self, py: Python<'_>, core: &Core) -> PyResult<Taken<Labelled>> {
        match self {
            Self::Native(_) => Ok(core.try_get_labelled().map(|(label, item)| (label, left(py, item))).into()),
            Self::Custom(object) => choose(py, core, object, |sub| {
                Ok(sub.core().try_get().map(|item| (sub.label().clone(), left(py, item))))
            }),
        }
    }

    /// Takes up to `most` items in one step, if there are at least `least` and the core decides.
    pub fn take_all(&self, py: Python<'_>, core: &Core, least: usize, most: usize) -> Option<Vec<Py<PyAny>>> {
        match self {
            Self::Native(_) => {
                core.try_get_all(least, most).map(|items| items.into_iter().map(|item| left(py, item)).collect())
            }
            Self::Custom(_) => None,
        }
    }

    /// Takes up to `most` items for `waiter` to hold, if it then holds at least `least`.
    pub fn gather(
        &self,
        py: Python<'_>,
        core: &Core,
        waiter: &mut Wait,
        least: usize,
        most: usize,
    ) -> PyResult<Gathered> {
        let Self::Custom(object) = self else { return Ok(waiter.gather(least, most)) };
        if waiter.may_gather(least) {
            for _ in waiter.held()..most {
                let held = choose(py, core, object, |sub| Ok(sub.core().hold(waiter).then_some(())))?;
                if !matches!(held, Taken::Got(())) {
                    break;
                }
            }
        }
        Ok(waiter.keep_or_give_back(least))
    }

    /// Reads the item that the next get takes.
    pub fn peek(&self, py: Python<'_>, core: &Core) -> PyResult<Taken<Py<PyAny>>> {
        match self {
            Self::Native(_) => Ok(core.peek(|item| shown(item.bind(py)).clone().unbind()).into()),
            Self::Custom(object) => {
                choose(py, core, object, |sub| Ok(sub.core().peek(|item| shown(item.bind(py)).clone().unbind())))
            }
        }
    }
}

/// Asks `object` which sub-queue is next and calls `act` with this sub-queue.
///
/// The object is called without any lock, and again if the sub-queue that it chose is empty by then.
fn choose<R>(
    py: Python<'_>,
    core: &Core,
    object: &Py<PyAny>,
    act: impl Fn(&SubQueue) -> PyResult<Option<R>>,
) -> PyResult<Taken<R>> {
    loop {
        let labels = match core.servable() {
            Ok(groups) => groups,
            Err(nothing) => return Ok(Err(nothing).into()),
        };
        let mut offered: Vec<Py<SubQueue>> = Vec::new();
        let groups = PyList::empty(py);
        for labels in labels {
            let objects = labels.iter().filter_map(|label| label.object(py));
            let group: Vec<Bound<'_, SubQueue>> = objects.filter_map(|object| object.cast_into().ok()).collect();
            offered.extend(group.iter().map(|sub| sub.clone().unbind()));
            groups.append(PyList::new(py, group)?)?;
        }
        let chosen = gil::call(&object.bind(py).getattr("select")?, [groups.as_any()])?;
        let Some(chosen) = offered.iter().find(|sub| sub.is(&chosen)) else {
            return Err(errors::bad_type(format!(
                "select(groups) must return one of the sub-queues in groups, got {}",
                errors::shown(&chosen)
            )));
        };
        if let Some(answer) = act(chosen.get())? {
            return Ok(Taken::Got(answer));
        }
    }
}
