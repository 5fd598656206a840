//! Drain threads that several queues share, without one queue starving the others.
//!
//! Each queue brings one drainer per thread of the scheduler, at most one per partition, each in a slot. A thread
//! without work borrows a drainer from a slot that has work, makes a pass with it and gives it back. The board decides
//! which slot is lent, and which threads park and are notified: `shared_scheduler_board.rs`. This file has the slots.
//!
//! # Invariants
//! 1. Only the thread that holds the loan of a slot touches its drainer.
//! 2. A slot is given back as ready if its drainer has work. Otherwise its sleeper falls asleep first, by the rule of
//!    `wait/sleeper.rs`: the producer of an item that the second check missed calls `Board::ring`, and a slot that is
//!    still lent at that time comes back ready.
//! 3. A finished drainer is given back and not lent again. The last drainer of a queue takes the queue off the
//!    scheduler.
//!
//! With the invariants of `shared_scheduler_board.rs` no drain thread sleeps while an item waits. A queue whose
//! handlers hang leaves at least one of several threads to the other queues, unless these handlers hung on every
//! thread while there was no other queue.
//!
//! Source: shared schedulers of SkyWalking's `BatchQueueManager`, where a slow handler holds up every queue on its
//! thread.

use super::drain_step::Step;
use super::drain_take::Drainer;
use super::drain_worker;
use super::item::{Keyed, ThreadId};
use super::queue::BatchQueue;
use super::shared_scheduler_board::{Board, BoardThread, Given, Next, PoolSleepers, QueueNumber, Registration};
use crate::ring::RingItem;
use crate::sync::{Arc, Mutex, plain, planted, thread};
use crate::wait::sleeper::Sleeper;
use std::time::Instant;

/// The contents of a slot while it is not lent.
struct DrainerSlot<T: RingItem + Keyed> {
    drainer: Option<Drainer<T>>,
    /// The number of passes since the last that found an item.
    empty_passes: u32,
}

/// A queue on a scheduler, with the context of its owner.
struct Member<T: RingItem + Keyed, C> {
    number: QueueNumber,
    context: C,
    queue: Arc<BatchQueue<T>>,
    /// Only the thread that holds the loan of a slot takes its lock (invariant 1).
    slots: Vec<Mutex<DrainerSlot<T>>>,
}

/// Threads that drain several queues in turn.
///
/// Its owner starts the threads. Each thread calls [`PoolThread::borrow`] until it returns `None`.
pub struct Scheduler<T: RingItem + Keyed, C> {
    board: Arc<Board>,
    members: Mutex<Vec<Arc<Member<T, C>>>>,
}

/// One thread of a scheduler.
pub struct PoolThread<'a, T: RingItem + Keyed, C> {
    scheduler: &'a Scheduler<T, C>,
    thread: BoardThread,
}

/// A drainer on loan to a thread. Dropping the loan gives the drainer back.
pub struct Loan<'a, T: RingItem + Keyed, C> {
    scheduler: &'a Scheduler<T, C>,
    member: Arc<Member<T, C>>,
    slot: usize,
    drainer: Option<Drainer<T>>,
    found: bool,
}

impl<T: RingItem + Keyed, C> Scheduler<T, C> {
    /// Makes a scheduler whose owner runs this many threads.
    pub fn new(threads: usize) -> Self {
        Self { board: Arc::new(Board::new(threads)), members: Mutex::new(Vec::new()) }
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        self.board.threads()
    }

    /// Makes the sleepers for a queue, which the caller then adds to this scheduler.
    pub fn sleepers(&self) -> PoolSleepers {
        let number = self.board.number();
        let sleeper = |slot| {
            let board = self.board.clone();
            Sleeper::new(Box::new(move || board.ring(number, slot)))
        };
        let sleepers = (0..self.threads()).map(sleeper).collect();
        PoolSleepers { sleepers, registration: Registration { board: self.board.clone(), number } }
    }

    /// Adds a queue.
    ///
    /// # Panics
    ///
    /// If the queue was not made with [`Self::sleepers`] of this scheduler, or was added before.
    pub fn add(&self, queue: Arc<BatchQueue<T>>, context: C) {
        let registration = queue.registration.as_ref().filter(|at| Arc::ptr_eq(&at.board, &self.board));
        let number = registration.expect("a queue is added to the scheduler whose sleepers it has").number;
        let slot = |id: usize| {
            let drainer = Some(Drainer::new(queue.clone(), id as ThreadId));
            Mutex::new(DrainerSlot { drainer, empty_passes: 0 })
        };
        let slots: Vec<_> = (0..queue.thread_count()).map(slot).collect();
        let count = slots.len();
        self.members.lock().push(Arc::new(Member { number, context, queue, slots }));
        self.board.add(number, count);
    }

    /// Lets the threads end once every queue has ended.
    pub fn stop(&self) {
        self.board.stop();
    }

    /// Makes the current thread one of this scheduler.
    pub fn thread(&self) -> PoolThread<'_, T, C> {
        PoolThread { scheduler: self, thread: self.board.thread() }
    }
}

impl<'a, T: RingItem + Keyed, C> PoolThread<'a, T, C> {
    /// Waits for a drainer with work. Returns `None` once the scheduler was stopped and its last queue has ended.
    pub fn borrow(&mut self) -> Option<Loan<'a, T, C>> {
        loop {
            match self.next_loan() {
                Ok(loan) => return Some(loan),
                Err(Next::Park(until)) => self.thread.park(until),
                Err(_) => return None,
            }
        }
    }

    /// Borrows a drainer with work, if there is one now; does not wait.
    pub fn try_borrow(&mut self) -> Option<Loan<'a, T, C>> {
        loop {
            match self.next_loan() {
                Ok(loan) => return Some(loan),
                Err(Next::Park(_)) if !self.scheduler.board.unpark(&self.thread) => {}
                Err(_) => return None,
            }
        }
    }

    fn next_loan(&self) -> Result<Loan<'a, T, C>, Next> {
        loop {
            match self.scheduler.board.next(&self.thread, Instant::now()) {
                Next::Work { queue, slot, due } => {
                    let loan = Loan::new(self.scheduler, queue, slot);
                    if loan.is_worth_a_pass(due) {
                        return Ok(loan);
                    }
                }
                nothing => return Err(nothing),
            }
        }
    }
}

impl<'a, T: RingItem + Keyed, C> Loan<'a, T, C> {
    fn new(scheduler: &'a Scheduler<T, C>, number: QueueNumber, slot: usize) -> Self {
        let member = {
            let members = scheduler.members.lock();
            members.iter().find(|member| member.number == number).expect("a queue on the board is a member").clone()
        };
        let drainer = member.slots[slot].lock().drainer.take();
        member.queue.workers[slot].sleeper.wake_up();
        Self { scheduler, member, slot, drainer, found: false }
    }

    fn is_worth_a_pass(&self, due: bool) -> bool {
        self.drainer.as_ref().is_some_and(|drainer| drainer.has_work() || (due && drainer.reports_idle_passes()))
    }

    /// Returns the context of the queue: the argument of [`Scheduler::add`].
    pub fn context(&self) -> &C {
        &self.member.context
    }

    /// Returns the number of the slot.
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// Makes a pass if there are items, without waiting. Returns `None` if the thread has to leave the items to another
    /// thread, because the queue has more loans than its share.
    pub fn step(&mut self) -> Option<Step<'_, T>> {
        let drainer = self.drainer.as_mut().expect("a loan has its drainer until it ends");
        drainer.refresh();
        if !drainer.has_work() {
            drainer.queue().enter(drainer.id());
            return Some(Step::Idle(drainer));
        }
        // The share is checked after the items: for items that came after a queue was added, it counts that queue.
        self.scheduler.board.is_within_share(self.member.number).then(|| drainer.try_step())
    }

    /// Notes that the pass found an item: the next sleep is the shortest again.
    pub fn found(&mut self) {
        self.found = true;
    }

    /// Puts the drainer back into its slot; returns the state of the slot (invariants 2 and 3).
    fn put_drainer_back(&mut self) -> Given {
        let Some(mut drainer) = self.drainer.take().filter(|drainer| !drainer.is_finished()) else {
            return Given::Ended;
        };
        let slot = &mut *self.member.slots[self.slot].lock();
        slot.empty_passes = if self.found { 0 } else { slot.empty_passes };
        let given = if drainer.has_work() && !planted("pool_second_check") {
            if !self.found {
                // A slot is claimed, and its item is not published yet.
                thread::yield_now();
            }
            Given::Ready
        } else {
            slot.empty_passes = slot.empty_passes.saturating_add(1);
            let (depth, time) = drainer.next_sleep(slot.empty_passes);
            let sleeper = &self.member.queue.workers[self.slot].sleeper;
            let asleep = sleeper.fall_asleep(depth, || {}, || !planted("pool_second_check") && drainer.has_work());
            if asleep { Given::Asleep(time.map(|time| Instant::now() + time)) } else { Given::Ready }
        };
        slot.drainer = Some(drainer);
        given
    }
}

impl<T: RingItem + Keyed, C> Drop for Loan<'_, T, C> {
    fn drop(&mut self) {
        let given = self.put_drainer_back();
        if self.scheduler.board.give_back(self.member.number, self.slot, given) {
            let mut members = self.scheduler.members.lock();
            members.retain(|member| member.number != self.member.number);
            // The member is dropped with the loan, after the lock is released.
        }
        if plain::panicking() {
            self.scheduler.board.replace();
        }
        drain_worker::leave();
    }
}
