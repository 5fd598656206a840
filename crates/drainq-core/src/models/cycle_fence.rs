//! The handoff that this crate does not use, kept to show what it would need.
//!
//! The owner is a word, a drain thread counts its passes, and the rebalancer revokes, waits
//! until the count has grown, and assigns. Acquire and release are not enough: the drain
//! thread may read the old owner after its count was read, so that the growth which the
//! rebalancer sees is that of the pass before. Only a SeqCst fence on both sides, between
//! the own store and the load of the other's, rules that out. A lease word that both change
//! by compare-and-swap needs no fence and no wait.
//!
//! Source: revoke, fence and assign in SkyWalking's `BatchQueue.java`, whose volatile
//! accesses are sequentially consistent.

use super::{Met, Plain};
use crate::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use crate::sync::{Arc, deep_model, full_fence, thread};

const NOBODY: i32 = -1;

struct Shared {
    owner: AtomicI32,
    passes: AtomicU32,
    handler: Plain,
}

impl Shared {
    fn pass(&self) {
        full_fence("cycle_fence_drain_thread");
        if self.owner.load(Ordering::Acquire) == 0 {
            self.handler.add(1);
        }
        self.passes.fetch_add(1, Ordering::Release);
    }
}

#[test]
fn a_counted_pass_is_over_only_with_full_fences_on_both_sides() {
    let met = Met::default();
    let note = met.clone();
    deep_model(move || {
        let shared = Arc::new(Shared { owner: AtomicI32::new(0), passes: AtomicU32::new(0), handler: Plain::new(0) });
        let old = {
            let shared = shared.clone();
            thread::spawn(move || (0..2).for_each(|_| shared.pass()))
        };
        shared.owner.store(NOBODY, Ordering::Release);
        full_fence("cycle_fence_rebalancer");
        let before = shared.passes.load(Ordering::Acquire);
        if shared.passes.load(Ordering::Acquire) > before {
            shared.owner.store(1, Ordering::Release);
            // As the new owner.
            shared.handler.add(1);
            note.note("assigned");
        } else {
            note.note("to be waited for");
        }
        old.join().unwrap();
    });
    met.exactly(&["assigned", "to be waited for"]);
}
