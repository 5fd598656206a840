//! The metrics of a batch queue, read without the GIL.

use super::SharedQueue;
use crate::monitoring::catalog::FamilyId as Family;
use crate::monitoring::object_registry::{self, Observed};
use crate::monitoring::sample::{Reading, SampleValue};
use drainq_core::batch::{Outcome, Rejection};
use std::sync::{Arc, Weak};

impl Observed for SharedQueue {
    fn is_open(&self) -> bool {
        self.queue().is_running()
    }

    fn read(&self, name: &str, reading: &mut Reading) {
        let process = self.process();
        let snapshot = process.queue.snapshot();
        let mut add = |family, value: SampleValue| reading.add(family, &[name], value);
        add(Family::BatchRunning, self.is_open().into());
        add(Family::BatchAccepted, snapshot.accepted.into());
        let outcomes = snapshot.outcomes();
        for outcome in Outcome::ALL {
            add(Family::of_outcome(outcome), outcomes.of(outcome).into());
        }
        add(Family::BatchAbandoned, snapshot.abandoned.into());
        add(Family::BatchQueued, snapshot.queued.into());
        add(Family::BatchCapacity, snapshot.total_capacity().into());
        add(Family::BatchBufferBytes, snapshot.allocated_bytes.into());
        add(Family::BatchRebalances, snapshot.rebalances.into());
        add(Family::BatchGilYields, process.gil_yield.yields().into());
        add(Family::BatchGilWait, process.gil_yield.waited_seconds().into());
        add(Family::BatchGilWaits, process.gil_yield.waits().iter().map(|wait| wait.1).sum::<u64>().into());
        add(Family::BatchHandlerTime, process.handler_nanos.read());
        add(Family::BatchSize, process.batch_sizes.read());
        for (reason, count) in Rejection::ALL.iter().zip(snapshot.rejected) {
            reading.add(Family::BatchRejected, &[name, reason.name()], count);
        }
        for (partition, (used, owner)) in snapshot.used.iter().zip(&snapshot.owners).enumerate() {
            let labels = [name, &partition.to_string()];
            reading.add(Family::BatchPartitionUsed, &labels, *used);
            reading.add(Family::BatchPartitionOwner, &labels, u64::from(*owner));
        }
        for (thread, worker) in snapshot.workers.iter().enumerate() {
            let labels = [name, &thread.to_string()];
            reading.add(Family::BatchThreadHandled, &labels, worker.outcomes.handled);
            reading.add(Family::BatchThreadPasses, &labels, worker.cycles);
            reading.add(Family::BatchThreadBusy, &labels, worker.busy_nanos as f64 / 1e9);
            reading.add(Family::BatchThreadInFlight, &labels, worker.in_flight);
        }
    }

    fn let_go(self: Arc<Self>) {
        object_registry::end_elsewhere(Arc::into_inner(self));
    }
}

impl SharedQueue {
    /// Lets the endpoint read the queue, under its name.
    pub fn observe(self: &Arc<Self>) {
        object_registry::observe("batch", self.name(), Arc::downgrade(self) as Weak<dyn Observed>);
    }
}
