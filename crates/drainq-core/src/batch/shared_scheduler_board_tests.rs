//! Tests the board alone, one step at a time: after each step no thread stays parked while there is work.

use super::*;
use proptest::prelude::*;
use std::collections::HashSet;
use std::time::Duration;

/// A board with its threads as a caller sees them.
struct Pool {
    board: Board,
    board_threads: Vec<BoardThread>,
    /// What each thread does: `None` on its way, else parked or at work.
    doing: Vec<Option<Next>>,
    now: Instant,
    queues: Vec<QueueNumber>,
}

#[derive(Clone, Debug)]
enum Step {
    Add(usize),
    Ring(usize, usize),
    Next(usize),
    /// All threads that are on their way arrive.
    Arrive,
    Ready(usize),
    Asleep(usize, Option<u64>),
    Ended(usize),
    Wait(u64),
    Stop,
}

fn pool(threads: usize) -> Pool {
    let board = Board::new(threads);
    let board_threads = (0..threads).map(|_| board.thread()).collect();
    Pool { board, board_threads, doing: (0..threads).map(|_| None).collect(), now: Instant::now(), queues: Vec::new() }
}

impl Pool {
    fn add(&mut self, slots: usize) {
        let number = self.board.number();
        self.board.add(number, slots);
        self.queues.push(number);
    }

    fn next(&mut self, thread: usize) -> &Next {
        let next = self.board.next(&self.board_threads[thread], self.now);
        self.doing[thread].insert(next)
    }

    /// Returns the slot that is lent to a thread. Asks the board for a slot if the thread has none.
    fn work(&mut self, thread: usize) -> Option<(QueueNumber, usize)> {
        if !matches!(self.doing[thread], Some(Next::Work { .. })) {
            self.next(thread);
        }
        let Some(Next::Work { queue, slot, .. }) = &self.doing[thread] else { return None };
        Some((*queue, *slot))
    }

    fn give_back(&mut self, thread: usize, given: Given) {
        let Some(Next::Work { queue, slot, .. }) = self.doing[thread] else { return };
        self.doing[thread] = None;
        if self.board.give_back(queue, slot, given) {
            self.queues.retain(|number| *number != queue);
        }
    }

    fn step(&mut self, step: &Step) {
        let threads = self.board_threads.len();
        match step {
            Step::Add(slots) => self.add(*slots),
            Step::Ring(queue, slot) => {
                if let Some(number) = self.queues.get(*queue).copied() {
                    let slots = self.board.state.lock().queue(number).expect("it is there").slots.len();
                    self.board.ring(number, slot % slots);
                }
            }
            Step::Next(thread) => {
                let thread = thread % threads;
                if !matches!(self.doing[thread], Some(Next::Work { .. })) {
                    self.next(thread);
                }
            }
            Step::Arrive => {
                while let Some(thread) = (0..threads).find(|thread| self.is_on_its_way(*thread)) {
                    self.next(thread);
                }
            }
            Step::Ready(thread) => self.give_back(thread % threads, Given::Ready),
            Step::Asleep(thread, due) => {
                let due = due.map(|millis| self.now + Duration::from_millis(millis));
                self.give_back(thread % threads, Given::Asleep(due));
            }
            Step::Ended(thread) => self.give_back(thread % threads, Given::Ended),
            Step::Wait(millis) => self.now += Duration::from_millis(*millis),
            Step::Stop => self.board.stop(),
        }
    }

    /// Checks the invariants from outside.
    fn check(&self) {
        let state = self.board.state.lock();
        let loan = |next: &Next| if let Next::Work { queue, slot, .. } = next { Some((*queue, *slot)) } else { None };
        let loans: Vec<_> = self.doing.iter().flatten().filter_map(loan).collect();
        assert_eq!(loans.iter().collect::<HashSet<_>>().len(), loans.len(), "a slot is lent once");
        let share =
            if state.queues.len() > 1 { (self.board_threads.len() - 1).max(1) } else { self.board_threads.len() };
        let (mut lendable, mut due) = (Vec::<SlotState>::new(), Vec::new());
        for queue in &state.queues {
            let lent = queue.slots.iter().filter(|slot| matches!(slot, SlotState::Lent { .. })).count();
            assert_eq!(queue.lent, lent, "loans are counted, and nothing else");
            let open = queue.slots.iter().filter(|_| lent < share);
            lendable.extend(open.clone().copied().filter(|slot| slot.lendable(self.now).is_some()));
            due.extend(open.filter_map(|slot| if let SlotState::Asleep { due } = slot { *due } else { None }));
        }
        let parked = state.parked.iter().filter(|at| at.until.is_none_or(|until| until > self.now));
        let parked: Vec<_> = parked.map(|at| (at.thread, at.until)).collect();
        let stopped = state.stopping && state.queues.is_empty();
        drop(state);
        if (0..self.board_threads.len()).any(|thread| self.is_on_its_way(thread)) || parked.is_empty() {
            return;
        }
        assert!(lendable.is_empty(), "threads are parked and {lendable:?} can be lent");
        if let Some(due) = due.into_iter().min() {
            assert!(parked.iter().filter_map(|at| at.1).any(|until| until <= due), "nobody keeps the time");
        }
        assert!(!stopped, "threads are parked for ever");
    }

    /// Whether a thread has to ask the board again: it has not asked yet, was notified, or its time has come.
    fn is_on_its_way(&self, thread: usize) -> bool {
        match &self.doing[thread] {
            None => true,
            Some(Next::Park(until)) => {
                let parked = &self.board.state.lock().parked;
                until.is_some_and(|until| until <= self.now)
                    || !parked.iter().any(|parked| parked.thread == self.board_threads[thread].number)
            }
            Some(Next::Work { .. } | Next::End) => false,
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (1_usize..4).prop_map(Step::Add),
        6 => (0_usize..4, 0_usize..4).prop_map(|(queue, slot)| Step::Ring(queue, slot)),
        3 => (0_usize..4).prop_map(Step::Next),
        8 => Just(Step::Arrive),
        3 => (0_usize..4).prop_map(Step::Ready),
        6 => (0_usize..4, prop::option::of(1_u64..20)).prop_map(|(thread, due)| Step::Asleep(thread, due)),
        1 => (0_usize..4).prop_map(Step::Ended),
        3 => (1_u64..10).prop_map(Step::Wait),
        1 => Just(Step::Stop),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn no_thread_stays_parked_while_there_is_work(threads in 1_usize..5, steps in prop::collection::vec(step(), 0..120)) {
        let mut pool = pool(threads);
        for step in &steps {
            pool.step(step);
            pool.check();
        }
    }
}

#[test]
fn a_ring_for_a_lent_slot_is_not_forgotten() {
    let mut pool = pool(1);
    pool.add(1);
    let (queue, slot) = pool.work(0).expect("a new slot is ready");
    pool.board.ring(queue, slot);
    pool.give_back(0, Given::Asleep(None));
    assert_eq!(pool.work(0), Some((queue, slot)));
}

#[test]
fn queues_take_turns_and_so_do_the_slots_of_each() {
    let mut pool = pool(2);
    pool.add(2);
    pool.add(1);
    let (first, second) = (pool.queues[0], pool.queues[1]);
    let mut seen = Vec::new();
    for _ in 0..6 {
        seen.extend(pool.work(0));
        pool.give_back(0, Given::Ready);
    }
    assert_eq!(seen, [(first, 0), (second, 0), (first, 1), (second, 0), (first, 0), (second, 0)]);
}

#[test]
fn a_queue_leaves_a_thread_to_the_others_and_has_all_when_it_is_alone() {
    let mut pool = pool(3);
    pool.add(3);
    assert!((0..3).all(|thread| pool.work(thread).is_some()), "alone it has all");
    (0..3).for_each(|thread| pool.give_back(thread, Given::Ready));
    pool.add(1);
    let second = pool.queues[1];
    let lent: Vec<_> = (0..3).filter_map(|thread| pool.work(thread)).collect();
    assert_eq!(lent.iter().filter(|(queue, _)| *queue == second).count(), 1, "the third is for the other queue");
    assert_eq!(lent.len(), 3);
    let busy = (0..3).find(|thread| pool.work(*thread).is_some_and(|(queue, _)| queue == second)).expect("lent");
    pool.give_back(busy, Given::Asleep(None));
    assert_eq!(pool.work(busy), None, "though the first queue has a slot left");
    pool.board.ring(second, 0);
    assert_eq!(pool.work(busy), Some((second, 0)));
}

#[test]
fn a_ring_leaves_the_thread_that_keeps_the_time() {
    let mut pool = pool(2);
    pool.add(1);
    pool.add(1);
    assert!(pool.work(0).is_some() && pool.work(1).is_some());
    let soon = pool.now + Duration::from_millis(1);
    pool.give_back(0, Given::Asleep(None));
    assert_eq!(*pool.next(0), Next::Park(None));
    pool.give_back(1, Given::Asleep(Some(soon)));
    assert_eq!(*pool.next(1), Next::Park(Some(soon)));
    pool.board.ring(pool.queues[0], 0);
    assert!(pool.is_on_its_way(0) && !pool.is_on_its_way(1));
}
