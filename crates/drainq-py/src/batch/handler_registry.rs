//! The handlers of a queue, by the key of their type.
//!
//! # Invariants
//! 1. No Python code runs while `by_key` is locked; so a handler that was replaced ends after the lock.
//! 2. `wanting_idle` counts the handlers in `by_key` that have `on_idle`. The core's queue counts these by key, and has
//!    the weights of all handlers. All this changes in one hold of the lock of `by_key`.

use super::handler::Handler;
use super::types::item::Item;
use drainq_core::batch::{BatchQueue, Key};
use drainq_core::sync::Mutex;
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A registered handler.
struct Registered {
    handler: Handler,
    weight: f64,
}

/// The registered handlers. `queue` is, in each call, the core's queue that they belong to.
#[derive(Default)]
pub struct Handlers {
    by_key: Mutex<Vec<Option<Registered>>>,
    /// Types for which the lack of a handler was logged.
    unrouted_logged: Mutex<Vec<bool>>,
    wanting_idle: AtomicUsize,
}

impl Handlers {
    /// Registers a handler, in the place of an earlier one of the same key.
    pub fn set(&self, queue: &BatchQueue<Item>, key: Key, handler: Handler, weight: f64) {
        let wants_idle = handler.wants_idle();
        let registered = Registered { handler, weight };
        let _old = {
            let mut handlers = self.by_key.lock();
            if handlers.len() <= key as usize {
                handlers.resize_with(key as usize + 1, || None);
            }
            let old = handlers[key as usize].replace(registered);
            queue.set_weight(key, weight);
            self.count_wanting_idle(queue, key, wants_idle, old.as_ref());
            old
        };
    }

    /// Removes a handler; false if there was none.
    pub fn remove(&self, queue: &BatchQueue<Item>, key: Key) -> bool {
        let old = {
            let mut handlers = self.by_key.lock();
            let old = handlers.get_mut(key as usize).and_then(Option::take);
            if old.is_some() {
                queue.set_weight(key, 0.0);
                self.unrouted_logged.lock().iter_mut().skip(key as usize).take(1).for_each(|logged| *logged = false);
            }
            self.count_wanting_idle(queue, key, false, old.as_ref());
            old
        };
        old.is_some()
    }

    /// Counts a new handler (`more`: it has `on_idle`), and no longer counts the old one (`less`).
    fn count_wanting_idle(&self, queue: &BatchQueue<Item>, key: Key, more: bool, less: Option<&Registered>) {
        if more {
            self.wanting_idle.fetch_add(1, Ordering::Relaxed);
            queue.report_idle_passes_of(key, true);
        }
        if less.is_some_and(|old| old.handler.wants_idle()) {
            self.wanting_idle.fetch_sub(1, Ordering::Relaxed);
            queue.report_idle_passes_of(key, false);
        }
    }

    /// Adds the same types to the queue of a forked child, with the weights of their handlers.
    pub fn add_types(&self, queue: &BatchQueue<Item>, types: usize) {
        let handlers = self.by_key.lock();
        for key in 0..types {
            let registered = handlers.get(key).and_then(Option::as_ref);
            let key = queue.add_type(registered.map_or(0.0, |at| at.weight));
            if registered.is_some_and(|at| at.handler.wants_idle()) {
                queue.report_idle_passes_of(key, true);
            }
        }
    }

    /// Whether there is a handler for this key.
    pub fn contains(&self, key: Key) -> bool {
        self.by_key.lock().get(key as usize).is_some_and(Option::is_some)
    }

    /// Returns the handler for this key.
    pub fn get(&self, py: Python<'_>, key: Key) -> Option<Handler> {
        let handlers = self.by_key.lock();
        handlers.get(key as usize)?.as_ref().map(|registered| registered.handler.clone_ref(py))
    }

    /// Returns the handlers with `on_idle`, by key.
    pub fn with_on_idle(&self, py: Python<'_>) -> Vec<(Key, Handler)> {
        if self.wanting_idle.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let handlers = self.by_key.lock();
        let present = (0..).zip(handlers.iter()).filter_map(|(key, at)| at.as_ref().map(|at| (key, at)));
        present.filter(|(_, at)| at.handler.wants_idle()).map(|(key, at)| (key, at.handler.clone_ref(py))).collect()
    }

    /// Returns the handlers with `on_close`.
    pub fn with_on_close(&self, py: Python<'_>) -> Vec<Handler> {
        let handlers = self.by_key.lock();
        handlers.iter().flatten().filter(|at| at.handler.wants_close()).map(|at| at.handler.clone_ref(py)).collect()
    }

    /// Whether this is the first call for a type without a handler: its lack is logged once.
    pub fn first_unrouted(&self, key: Key) -> bool {
        let mut logged = self.unrouted_logged.lock();
        if logged.len() <= key as usize {
            logged.resize(key as usize + 1, false);
        }
        !mem::replace(&mut logged[key as usize], true)
    }

    /// Shows the garbage collector the user's objects.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(handlers) = self.by_key.try_lock() else { return Ok(()) };
        handlers.iter().flatten().flat_map(|at| at.handler.held()).try_for_each(|held| visit.call(held))
    }

    /// Removes all handlers and gives their references back.
    pub fn clear(&self) {
        // Dropped after the lock is released, because the end of a handler may run Python code.
        let _handlers = mem::take(&mut *self.by_key.lock());
    }
}
