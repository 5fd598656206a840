//! What registration, moves and the close of a queue change, all under one lock that producers and drain threads
//! never take.

use super::route::Loads;

/// What registration, moves and the close change, under one lock.
#[derive(Default)]
pub(super) struct Control {
    pub(super) loads: Loads,
    /// Weight of each key's handler; 0 for a type without one.
    pub(super) weights: Vec<f64>,
    pub(super) closed: bool,
}
