//! The ownership word: one pass runs at a time, and sees everything that the pass before did.

use super::{Met, Plain};
use crate::batch::item::ThreadId;
use crate::batch::partition_handoff::{Move, Ownership};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, deep_model, thread};

struct Shared {
    ownership: Ownership,
    /// The data that only a thread in a pass may touch.
    handler: Plain,
    revoked: AtomicBool,
}

fn shared() -> Arc<Shared> {
    Arc::new(Shared { ownership: Ownership::new(0), handler: Plain::new(0), revoked: AtomicBool::new(false) })
}

impl Shared {
    fn pass(&self, me: ThreadId) -> u32 {
        if !self.ownership.begin(me) {
            return 0;
        }
        self.handler.add(1);
        self.ownership.end();
        1
    }
}

#[test]
fn the_next_owner_sees_the_whole_pass_of_the_last() {
    let met = Met::default();
    let note = met.clone();
    deep_model(move || {
        let shared = shared();
        let old = {
            let shared = shared.clone();
            thread::spawn(move || shared.pass(0) + shared.pass(0))
        };
        let new = {
            let shared = shared.clone();
            thread::spawn(move || shared.pass(1))
        };
        note.note(match shared.ownership.revoke(1) {
            Move::Done => "between passes",
            Move::Pending => "in a pass",
            Move::Unneeded => "unneeded",
        });
        let passes = old.join().unwrap() + new.join().unwrap();
        note.note(["no pass", "one pass", "two passes", "three passes"][passes as usize]);
        assert_eq!(shared.ownership.owner(), 1);
        assert!(shared.ownership.begin(1), "after both ended the new owner may start");
        assert_eq!(shared.handler.add(0), passes);
    });
    met.exactly(&["between passes", "in a pass", "no pass", "one pass", "two passes", "three passes"]);
}

#[test]
fn after_the_revoke_the_old_owner_starts_no_other_pass() {
    let met = Met::default();
    let note = met.clone();
    deep_model(move || {
        let shared = shared();
        let old = {
            let shared = shared.clone();
            thread::spawn(move || {
                let before = shared.pass(0);
                let revoked = shared.revoked.load(Ordering::Acquire);
                let after = shared.pass(0);
                assert!(!(revoked && after > 0), "a pass of thread 0 after the revoke");
                (before, after)
            })
        };
        shared.ownership.revoke(1);
        shared.revoked.store(true, Ordering::Release);
        let passes = old.join().unwrap();
        note.note(match passes {
            (0, 0) => "revoked first",
            (1, 0) => "revoked in the first pass or after it",
            _ => "revoked later",
        });
        assert_eq!(shared.ownership.owner(), 1, "assigned by the revoke or by the end of the pass");
    });
    met.exactly(&["revoked first", "revoked in the first pass or after it", "revoked later"]);
}

/// Two moves at once: the later one holds, and the passes of all three threads are ordered.
#[test]
fn of_two_moves_at_once_one_wins_and_none_is_torn() {
    let met = Met::default();
    let note = met.clone();
    deep_model(move || {
        let shared = shared();
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.ownership.revoke(2);
                shared.pass(2)
            })
        };
        let old = shared.pass(0);
        shared.ownership.revoke(1);
        let new = shared.pass(1);
        let passes = old + new + other.join().unwrap();
        let owner = shared.ownership.owner();
        note.note(["", "thread 1", "thread 2"][usize::from(owner)]);
        assert!(shared.ownership.begin(owner));
        assert_eq!(shared.handler.add(0), passes);
    });
    met.exactly(&["thread 1", "thread 2"]);
}

/// At a shutdown any thread may drain any partition, still one thread at a time.
#[test]
fn at_the_end_anybody_drains_one_at_a_time() {
    deep_model(|| {
        let shared = shared();
        let anybody = |shared: &Shared| {
            let began = shared.ownership.begin_any();
            if began {
                shared.handler.add(1);
                shared.ownership.end();
            }
            u32::from(began)
        };
        let other = {
            let shared = shared.clone();
            thread::spawn(move || anybody(&shared))
        };
        let passes = anybody(&shared) + other.join().unwrap();
        assert!(passes >= 1, "whoever is first begins");
        assert!(shared.ownership.begin_any());
        assert_eq!(shared.handler.add(0), passes);
    });
}
