//! The set queue against plain lists and sets.
#![cfg(not(any(loom, drainq_shuttle)))]

use drainq_core::sources::set_queue::{AfterTake, Lookup, Poll, Same, SetQueue};
use proptest::prelude::*;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Returns one of few hashes, so that different entries often share one.
fn hash_of(entry: u8) -> u64 {
    u64::from(entry % 3)
}

fn put(queue: &mut SetQueue<u8>, entry: u8) -> bool {
    let absent = queue.table().find(hash_of(entry), |known| Same::from(*known == entry)) == Lookup::Absent;
    if absent {
        queue.push(hash_of(entry), entry);
    }
    absent
}

fn take(queue: &mut SetQueue<u8>, now: Duration) -> Option<u8> {
    queue.take(now, |known| *known, |taken| taken)
}

fn done(queue: &mut SetQueue<u8>, entry: u8, now: Duration) -> bool {
    match queue.table().find(hash_of(entry), |known| Same::from(*known == entry)) {
        Lookup::Known(known, _) => queue.done(known, now).is_ok(),
        _ => false,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8),
    Take,
    Done(u8),
    Advance(u8),
    BeginPoll,
    EndPoll(u8),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..12_u8).prop_map(Step::Put),
        3 => Just(Step::Take),
        2 => (0..12_u8).prop_map(Step::Done),
        1 => (0..3_u8).prop_map(Step::Advance),
        1 => Just(Step::BeginPoll),
        1 => (0..3_u8).prop_map(Step::EndPoll),
        1 => Just(Step::Clear),
    ]
}

/// The plain model: lists of the entries that wait, are in flight, or are remembered, and until when they are.
#[derive(Default)]
struct Model {
    waiting: Vec<u8>,
    in_flight: Vec<u8>,
    remembered: Vec<(u8, Duration, Vec<Poll>)>,
    polls: Vec<Poll>,
}

impl Model {
    fn knows(&self, entry: u8) -> bool {
        self.waiting.contains(&entry)
            || self.in_flight.contains(&entry)
            || self.remembered.iter().any(|(known, ..)| *known == entry)
    }

    fn forget_due(&mut self, now: Duration) {
        let polls = &self.polls;
        self.remembered.retain(|(_, until, fences)| *until > now || fences.iter().any(|poll| polls.contains(poll)));
    }
}

fn agrees(after_take: AfterTake, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut queue = SetQueue::new(after_take);
    let mut model = Model::default();
    let mut now = Duration::ZERO;
    for step in steps {
        queue.forget_due(now, &mut Vec::new());
        model.forget_due(now);
        match step {
            Step::Put(entry) => {
                let fresh = !model.knows(entry);
                if fresh {
                    model.waiting.push(entry);
                }
                prop_assert_eq!(put(&mut queue, entry), fresh);
            }
            Step::Take => {
                let expected = (!model.waiting.is_empty()).then(|| model.waiting.remove(0));
                if let Some(entry) = expected {
                    match after_take {
                        AfterTake::Forget => {}
                        AfterTake::Track(_) => model.in_flight.push(entry),
                        AfterTake::Remember(ttl) => model.remembered.push((entry, now + ttl, Vec::new())),
                    }
                }
                prop_assert_eq!(take(&mut queue, now), expected);
            }
            Step::Done(entry) => {
                let known = model.in_flight.contains(&entry);
                if known {
                    model.in_flight.retain(|other| *other != entry);
                    let ttl = if let AfterTake::Track(ttl) = after_take { ttl } else { Duration::ZERO };
                    model.remembered.push((entry, now + ttl, model.polls.clone()));
                }
                prop_assert_eq!(done(&mut queue, entry, now), known);
            }
            Step::Advance(seconds) => now += SECOND * u32::from(seconds),
            Step::BeginPoll => model.polls.push(queue.begin_poll()),
            Step::EndPoll(which) => {
                if !model.polls.is_empty() {
                    let poll = model.polls.remove(usize::from(which) % model.polls.len());
                    prop_assert!(queue.end_poll(poll));
                    prop_assert!(!queue.end_poll(poll));
                }
            }
            Step::Clear => {
                prop_assert_eq!(queue.clear(), std::mem::take(&mut model.waiting));
            }
        }
        prop_assert_eq!(queue.iter().copied().collect::<Vec<_>>(), model.waiting.clone());
        prop_assert_eq!(queue.len(), model.waiting.len());
        prop_assert_eq!(queue.in_flight(), model.in_flight.len());
    }
    Ok(())
}

proptest! {
    #[test]
    fn agrees_with_a_plain_list_when_it_forgets(steps in prop::collection::vec(step(), 0..80)) {
        agrees(AfterTake::Forget, steps)?;
    }

    #[test]
    fn agrees_with_plain_lists_when_it_tracks(ttl in 0..3_u32, steps in prop::collection::vec(step(), 0..80)) {
        agrees(AfterTake::Track(SECOND * ttl), steps)?;
    }

    #[test]
    fn agrees_with_plain_lists_when_it_remembers(steps in prop::collection::vec(step(), 0..80)) {
        agrees(AfterTake::Remember(SECOND * 2), steps)?;
    }
}
