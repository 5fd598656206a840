//! Time as a value handed in, so that no test has to sleep.
//!
//! [`SystemClock`] reads the machine's monotonic clock; [`ManualClock`] stands still until
//! a test moves it. Both give a [`Duration`] since an origin of their own.

use crate::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Says how much time has passed since an origin that never changes.
pub trait Clock: Send + Sync {
    /// Time since the clock's origin; never goes back.
    fn now(&self) -> Duration;
}

/// The machine's monotonic clock; its origin is its creation.
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock that starts at zero now.
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// A clock that a test moves by hand.
pub struct ManualClock {
    nanos: AtomicU64,
}

impl ManualClock {
    /// A clock that stands at zero.
    pub fn new() -> Self {
        Self { nanos: AtomicU64::new(0) }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.nanos.fetch_add(by.as_nanos() as u64, Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::SeqCst))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_by_hand() {
        let clock = ManualClock::new();
        assert_eq!(clock.now(), Duration::ZERO);
        clock.advance(Duration::from_millis(3));
        assert_eq!(clock.now(), Duration::from_millis(3));
    }
}
