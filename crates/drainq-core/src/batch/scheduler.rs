//! Drain threads that several queues share, without one queue starving the others.
//!
//! Each queue brings one drainer per thread of the scheduler. A free thread borrows the
//! next drainer that has work, makes one pass with it, and gives it back; queues take turns.
//!
//! # Invariants
//! 1. A drainer is in its slot or borrowed by one thread, so one pass at a time is made
//!    with it.
//! 2. A drainer in its slot is asleep (its sleeper says so, and a producer will ring) or
//!    will be looked at by a thread before that thread parks. A thread enlists before its
//!    last look, so a ring after that look calls it.
//! 3. With several queues and several threads, no queue has all the threads: one whose
//!    handlers hang leaves at least one thread to the others.
//!
//! Source: shared schedulers of SkyWalking's `BatchQueueManager`, where a slow handler holds
//! up every queue on its thread.

use super::drain::Drainer;
use super::handoff::ThreadId;
use super::queue::BatchQueue;
use super::route::Keyed;
use super::worker;
use crate::park::{Sleeper, sleep_after};
use crate::space::Space;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, planted};
use crate::word::Word;
use std::time::{Duration, Instant};

struct Slot<T: Word + Keyed> {
    /// In its slot, or borrowed (invariant 1).
    drainer: Option<Drainer<T>>,
    /// Passes that found nothing, in a row.
    empty: u32,
    /// When to look again even if nobody rings.
    due: Option<Instant>,
}

/// A queue on a scheduler, with what its owner wants to find again.
pub struct Member<T: Word + Keyed, C> {
    /// The owner's.
    pub context: C,
    queue: Arc<BatchQueue<T>>,
    slots: Vec<Mutex<Slot<T>>>,
    /// Drainers that are borrowed now.
    busy: AtomicUsize,
}

/// A number of threads that drain several queues in turn.
pub struct Scheduler<T: Word + Keyed, C> {
    threads: usize,
    members: Mutex<Vec<Arc<Member<T, C>>>>,
    /// Threads that have nothing to do.
    idle: Arc<Space>,
    stopping: AtomicBool,
}

/// A drainer on loan to a thread; given back when dropped.
pub struct Loan<T: Word + Keyed, C> {
    member: Arc<Member<T, C>>,
    slot: usize,
    drainer: Option<Drainer<T>>,
}

impl<T: Word + Keyed, C> Scheduler<T, C> {
    /// A scheduler whose owner runs [`Scheduler::borrow`] on this many threads.
    pub fn new(threads: usize) -> Self {
        Self {
            threads,
            members: Mutex::new(Vec::new()),
            idle: Arc::new(Space::new()),
            stopping: AtomicBool::new(false),
        }
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The sleepers for a new queue's workers: each rings for a thread of this scheduler.
    pub fn sleepers(&self) -> Vec<Sleeper> {
        let ring = |_| {
            let idle = self.idle.clone();
            Sleeper::new(Box::new(move || idle.call(1)))
        };
        (0..self.threads).map(ring).collect()
    }

    /// Takes a queue on, which was made with sleepers of this scheduler.
    pub fn add(&self, queue: Arc<BatchQueue<T>>, context: C) {
        let slot = |id: usize| {
            let drainer = Some(Drainer::new(queue.clone(), id as ThreadId));
            Mutex::new(Slot { drainer, empty: 0, due: None })
        };
        let slots = (0..queue.thread_count()).map(slot).collect();
        self.members.lock().push(Arc::new(Member { context, queue, slots, busy: AtomicUsize::new(0) }));
        self.idle.call_all();
    }

    /// Lets the threads end once every queue has ended.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.idle.call_all();
    }

    /// Waits up to `patience` for a drainer with work: `Err(true)` if there is none yet,
    /// `Err(false)` if there will be none and the thread may end. `turn` is the thread's own
    /// memory of whose turn it is.
    pub fn borrow(&self, turn: &mut usize, patience: Duration) -> Result<Loan<T, C>, bool> {
        worker::leave();
        if let Ok(loan) = self.look(turn) {
            return Ok(loan);
        }
        let mut line = self.idle.enlist();
        let due = match self.look(turn) {
            Ok(loan) if !planted("pool_second_look") => return Ok(loan),
            Ok(_) => None,
            Err(due) => due,
        };
        if self.stopping.load(Ordering::Acquire) && self.members.lock().is_empty() {
            return Err(false);
        }
        let until_due = due.map_or(patience, |due| due.saturating_duration_since(Instant::now()));
        line.wait(until_due.min(patience));
        // Called or not, this thread looks again: the call need not be passed on.
        line.served();
        Err(true)
    }

    /// Looks at each queue once, from the turn on; else the time of the next look.
    fn look(&self, turn: &mut usize) -> Result<Loan<T, C>, Option<Instant>> {
        let members = self.members.lock().clone();
        let share = if members.len() > 1 { (self.threads - 1).max(1) } else { self.threads };
        let mut due: Option<Instant> = None;
        for step in 0..members.len() {
            let member = &members[(*turn + step) % members.len()];
            if member.is_finished() {
                let gone = self.take_out(member);
                drop(gone);
                continue;
            }
            // Counted before the look and after it again, so that the share is kept.
            if member.busy.fetch_add(1, Ordering::AcqRel) < share {
                match member.find_work() {
                    Ok((slot, drainer)) => {
                        *turn = (*turn + step + 1) % members.len();
                        return Ok(Loan { member: member.clone(), slot, drainer: Some(drainer) });
                    }
                    Err(next) => due = [due, next].into_iter().flatten().min(),
                }
            }
            member.busy.fetch_sub(1, Ordering::AcqRel);
        }
        Err(due)
    }

    fn take_out(&self, member: &Arc<Member<T, C>>) -> Option<Arc<Member<T, C>>> {
        let mut members = self.members.lock();
        let at = members.iter().position(|other| Arc::ptr_eq(other, member))?;
        Some(members.remove(at))
    }
}

impl<T: Word + Keyed, C> Member<T, C> {
    fn is_finished(&self) -> bool {
        !self.queue.is_running()
            && self.slots.iter().all(|slot| slot.lock().drainer.as_ref().is_some_and(Drainer::is_finished))
    }

    fn find_work(&self) -> Result<(usize, Drainer<T>), Option<Instant>> {
        let mut due: Option<Instant> = None;
        for (id, slot) in self.slots.iter().enumerate() {
            let slot = &mut *slot.lock();
            let Some(drainer) = slot.drainer.take() else { continue };
            let sleeper = &self.queue.workers[id].sleeper;
            let now = Instant::now();
            let is_due = slot.due.is_some_and(|due| now >= due);
            if sleeper.is_asleep() && !is_due {
                due = [due, slot.due].into_iter().flatten().min();
                slot.drainer = Some(drainer);
                continue;
            }
            slot.due = None;
            let watched = drainer.is_watched();
            if drainer.has_work() || (is_due && watched) {
                sleeper.wake_up();
                return Ok((id, drainer));
            }
            slot.empty = slot.empty.saturating_add(1);
            let settings = &self.queue.settings;
            let (depth, time) = sleep_after(slot.empty, settings.min_idle, settings.max_idle, watched);
            if !sleeper.fall_asleep(depth, || {}, || drainer.has_work()) {
                return Ok((id, drainer));
            }
            slot.due = time.map(|time| now + time);
            due = [due, slot.due].into_iter().flatten().min();
            slot.drainer = Some(drainer);
        }
        Err(due)
    }
}

impl<T: Word + Keyed, C> Loan<T, C> {
    /// What the queue's owner wanted to find again.
    pub fn context(&self) -> &C {
        &self.member.context
    }

    /// The drainer, to make a pass with.
    pub fn drainer(&mut self) -> &mut Drainer<T> {
        self.drainer.as_mut().expect("a loan has its drainer until it ends")
    }

    /// The pass found something: the next sleep is a short one again.
    pub fn found(&self) {
        self.member.slots[self.slot].lock().empty = 0;
    }
}

impl<T: Word + Keyed, C> Drop for Loan<T, C> {
    fn drop(&mut self) {
        self.member.slots[self.slot].lock().drainer = self.drainer.take();
        self.member.busy.fetch_sub(1, Ordering::AcqRel);
        worker::leave();
    }
}
