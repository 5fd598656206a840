//! The outcomes of items that drain threads took, each with its name and its meaning.
//!
//! To add an outcome, add a row to the table below, which declares the counters of drain threads and of types and the
//! metric families. The Python classes are in `python/drainq/statistics.py`.

use crate::sync::atomic::{AtomicU64, Ordering};

/// Calls the macro `$then` with the table of outcomes: documentation, variant and name of each.
#[macro_export]
macro_rules! for_each_outcome {
    ($then:ident) => {
        $then! {
            /// Items whose handler call returned.
            Handled handled,
            /// Items whose handler call raised and that no durable queue took.
            Failed failed,
            /// Items for which there was no handler.
            Unrouted unrouted,
            /// Items that a durable queue took: whose handler call raised, or that a shutdown gave up before the call.
            DeadLettered dead_lettered,
        }
    };
}

macro_rules! declare {
    ($(#[doc = $help:literal] $variant:ident $name:ident,)*) => {
        /// The outcome of a batch, or of a part of it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Outcome {
            $(#[doc = $help] $variant),*
        }

        impl Outcome {
            /// All outcomes, in the order in which they are shown.
            pub const ALL: [Self; [$(stringify!($name)),*].len()] = [$(Self::$variant),*];

            /// Returns the name of its counter.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($name)),*
                }
            }
        }

        /// Items by outcome.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct OutcomeCounts {
            $(#[doc = $help] pub $name: u64),*
        }

        impl OutcomeCounts {
            /// Counts items.
            pub fn add(&mut self, outcome: Outcome, count: u64) {
                match outcome {
                    $(Outcome::$variant => self.$name += count),*
                }
            }

            /// Returns the items of one outcome.
            pub fn of(&self, outcome: Outcome) -> u64 {
                match outcome {
                    $(Outcome::$variant => self.$name),*
                }
            }
        }
    };
}

for_each_outcome!(declare);

impl OutcomeCounts {
    /// Returns the items of all outcomes.
    pub fn total(&self) -> u64 {
        Outcome::ALL.iter().map(|outcome| self.of(*outcome)).sum()
    }
}

/// The same counters for threads that share no lock.
#[derive(Default)]
pub(super) struct SharedOutcomeCounts([AtomicU64; Outcome::ALL.len()]);

impl SharedOutcomeCounts {
    pub fn add(&self, outcome: Outcome, count: u64) {
        self.0[outcome as usize].fetch_add(count, Ordering::Relaxed);
    }

    pub fn read(&self) -> OutcomeCounts {
        let mut counts = OutcomeCounts::default();
        for outcome in Outcome::ALL {
            counts.add(outcome, self.0[outcome as usize].load(Ordering::Relaxed));
        }
        counts
    }
}
