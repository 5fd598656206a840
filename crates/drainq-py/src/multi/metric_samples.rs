//! The metrics of a multi-queue, read without the GIL.

use super::label::Label;
use crate::monitoring::catalog::FamilyId as Family;
use crate::monitoring::object_registry::{self, Observed};
use crate::monitoring::sample::Reading;
use drainq_core::multi::{MultiShared, Stats};
use pyo3::prelude::*;
use std::collections::HashSet;
use std::sync::Arc;

/// The most sub-queues of a multi-queue that have their own samples: those of the first slots.
const MOST_SUB_QUEUES: usize = 1000;

impl Observed for MultiShared<Py<PyAny>, Arc<Label>> {
    fn is_open(&self) -> bool {
        !self.is_shut_down()
    }

    fn read(&self, name: &str, reading: &mut Reading) {
        let all = self.read_stats(MOST_SUB_QUEUES, |label| label.text().to_owned());
        let age = |stats: &Stats| stats.oldest_age.map_or(0.0, |age| age.as_secs_f64());
        let total = all.total;
        reading.add(Family::MultiDepth, &[name], total.depth);
        reading.add(Family::MultiHighWater, &[name], total.counters.high_water);
        reading.add(Family::MultiPut, &[name], total.counters.put);
        reading.add(Family::MultiGot, &[name], total.counters.got);
        reading.add(Family::MultiRejected, &[name], total.counters.rejected);
        reading.add(Family::MultiRemoved, &[name], total.counters.removed);
        reading.add(Family::MultiOldestAge, &[name], age(&total));
        reading.add(Family::MultiBlockedPutters, &[name], total.blocked_putters);
        reading.add(Family::MultiBlockedGetters, &[name], all.blocked_getters);
        reading.add(Family::MultiSubQueues, &[name], all.attached);
        let mut taken = HashSet::new();
        for (text, stats) in all.each {
            let labels = [name, &unique(text, &mut taken)];
            reading.add(Family::SubQueueDepth, &labels, stats.depth);
            reading.add(Family::SubQueuePut, &labels, stats.counters.put);
            reading.add(Family::SubQueueGot, &labels, stats.counters.got);
            reading.add(Family::SubQueueRejected, &labels, stats.counters.rejected);
            reading.add(Family::SubQueueOldestAge, &labels, age(&stats));
        }
    }

    fn let_go(self: Arc<Self>) {
        object_registry::end_elsewhere(Arc::into_inner(self));
    }
}

/// Returns the text, with a number if another sub-queue has it: keys 1 and "1".
fn unique(text: String, taken: &mut HashSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{text}-{number}"));
    let free = std::iter::once(text.clone()).chain(numbered).find(|text| !taken.contains(text));
    let free = free.unwrap_or(text);
    taken.insert(free.clone());
    free
}
