//! The metrics of a set queue, read without the GIL.

use super::state::Guarded;
use crate::monitoring::catalog::FamilyId as Family;
use crate::monitoring::object_registry::{self, Observed};
use crate::monitoring::sample::Reading;
use drainq_core::sync::Mutex;
use std::sync::Arc;

impl Observed for Mutex<Guarded> {
    fn is_open(&self) -> bool {
        !self.lock().closed
    }

    fn read(&self, name: &str, reading: &mut Reading) {
        let state = self.lock();
        reading.add(Family::SetSize, &[name], state.queue.len());
        reading.add(Family::SetInFlight, &[name], state.queue.in_flight());
        reading.add(Family::SetPut, &[name], state.put);
        reading.add(Family::SetGot, &[name], state.got);
        reading.add(Family::SetDuplicates, &[name], state.duplicates);
        reading.add(Family::SetBlockedGetters, &[name], state.getters.blocked());
        reading.add(Family::SetBlockedPutters, &[name], state.putters.blocked());
    }

    fn let_go(self: Arc<Self>) {
        object_registry::end_elsewhere(Arc::into_inner(self));
    }
}
