//! Deliberate faults, by name, which show that the test of an ordering can fail.
//!
//! Code calls one of these functions for every ordering and every wake-up that a model checks. In a normal build the
//! answer is a constant, and the compiler removes the call. Under a model checker, or with `--cfg drainq_mutants`, the
//! variable `DRAINQ_MUTANT` names the fault to make, or several with commas between them. `scripts/mutants/core.py`
//! lists all of them with the test that fails.

use super::atomic::Ordering;

/// Whether to make the fault of this name.
#[cfg(any(loom, drainq_shuttle, drainq_mutants))]
pub(crate) fn planted(name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| std::env::var("DRAINQ_MUTANT").ok()).as_deref();
    chosen.is_some_and(|names| names.split(',').any(|chosen| chosen == name))
}

/// Whether to make the fault of this name: never, in this build.
#[cfg(not(any(loom, drainq_shuttle, drainq_mutants)))]
#[inline(always)]
pub(crate) const fn planted(_name: &str) -> bool {
    false
}

/// Returns the ordering `right`, or `Relaxed` to make the fault of this name.
#[inline(always)]
pub(crate) fn order(name: &str, right: Ordering) -> Ordering {
    if planted(name) { Ordering::Relaxed } else { right }
}

/// Runs a SeqCst fence, or nothing to make the fault of this name.
#[inline(always)]
pub(crate) fn full_fence(name: &str) {
    if !planted(name) {
        super::fence(Ordering::SeqCst);
    }
}
