//! The board of a shared scheduler: all slots and all parked threads, under one lock.
//!
//! Each queue has a slot for each of its workers. A slot is *ready* (there may be work), *lent* to one thread,
//! *asleep* (the sleeper of its worker is asleep, and the next item *rings*: [`Board::ring`] then makes the slot
//! ready) or *ended*. A thread of the scheduler is *parked*, *has a loan*, or is *on its way* to [`Board::next`]. A
//! slot can be lent if its queue has fewer loans than its share, and the slot is ready, or asleep and due.
//!
//! # Invariants
//! 1. A slot is lent to one thread at a time.
//! 2. With several queues and several threads, no queue begins a pass on every thread. A thread that borrows a slot and
//!    finds no work there gives the slot back, and the loan no longer counts. A thread also gives the slot back if its
//!    queue was the only one when the thread borrowed, and now has more loans than its share
//!    ([`Board::is_within_share`]). A pass that has begun runs to its end.
//! 3. For any time T at which some thread will still be parked: the loans that can be made by T are no more than the
//!    threads that are on their way or will wake up by T. So no thread stays parked while a slot can be lent.
//!
//! Why invariant 3 holds: each step is made under the lock and keeps the first number at most as large as the second.
//!
//! | step | loans that can be made | threads on their way by then |
//! | --- | --- | --- |
//! | a slot asleep rings | at most one more | the last to wake by itself is notified; none if the queue has its share |
//! | a slot that is lent rings | the same: the ring is noted, and the slot comes back ready | the same |
//! | a slot is given back, ready or asleep, and its loan leaves the share | at most one more | its thread is on its way |
//! | a slot ends, the last of its queue: the share of the one queue left grows | at most one more | its thread is on its way |
//! | a queue is added | one more for each slot at most | as many are notified |
//! | a thread takes a loan | one less | one less |
//! | a thread parks, having found nothing, until the next slot is due | none now | itself, at that time |
//! | time passes | the same | the same |
//!
//! Source: Go's scheduler compares the number of its spinning threads with the work in a similar way.

use crate::sync::{Arc, Mutex, Parker, Unparker, planted};
use crate::wait::sleeper::Sleeper;
use std::time::Instant;

/// The number of a queue, unique in its scheduler.
pub(super) type QueueNumber = u64;

/// The next step of a thread.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Work with this slot; `due` if it is lent because its time has come.
    Work { queue: QueueNumber, slot: usize, due: bool },
    /// Park until this time, if there is one, or until notified.
    Park(Option<Instant>),
    /// The scheduler was stopped and its last queue has ended.
    End,
}

/// The state in which a slot is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// There is more to do.
    Ready,
    /// Its sleeper is asleep. It is due at this time, if there is one.
    Asleep(Option<Instant>),
    /// Its queue is closed and empty. The slot is not lent again.
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotState {
    Ready,
    Lent { rung: bool },
    Asleep { due: Option<Instant> },
    Ended,
}

/// Why a slot can be lent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lendable {
    Ready,
    Due,
}

struct BoardQueue {
    number: QueueNumber,
    slots: Vec<SlotState>,
    /// The number of loans now.
    lent: usize,
    /// The slot whose turn is next.
    turn: usize,
}

struct Parked {
    thread: usize,
    unparker: Unparker,
    until: Option<Instant>,
}

#[derive(Default)]
struct BoardState {
    /// The queues, sorted by number.
    queues: Vec<BoardQueue>,
    /// The queue that had the last loan.
    last: QueueNumber,
    parked: Vec<Parked>,
    stopping: bool,
    /// How many queues and how many threads got a number so far.
    numbered: (QueueNumber, usize),
}

/// The slots of all queues of one scheduler, and its parked threads.
pub(super) struct Board {
    threads: usize,
    state: Mutex<BoardState>,
}

/// One thread of the scheduler.
pub(super) struct BoardThread {
    number: usize,
    parker: Parker,
}

impl BoardThread {
    /// Parks until notified, or until this time.
    pub fn park(&self, until: Option<Instant>) {
        match until {
            Some(until) => self.parker.park_timeout(until.saturating_duration_since(Instant::now())),
            None => self.parker.park(),
        }
    }
}

/// The sleepers of a queue that a scheduler drains: made by
/// [`Scheduler::sleepers`](super::shared_scheduler::Scheduler::sleepers).
pub struct PoolSleepers {
    pub(super) sleepers: Vec<Sleeper>,
    pub(super) registration: Registration,
}

/// The number of a queue on the board of one scheduler.
pub(super) struct Registration {
    pub(super) board: Arc<Board>,
    pub(super) number: QueueNumber,
}

impl Board {
    /// Makes the board of this many threads.
    pub fn new(threads: usize) -> Self {
        Self { threads, state: Mutex::new(BoardState::default()) }
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Returns the number for a queue that the caller will add.
    pub fn number(&self) -> QueueNumber {
        let numbered = &mut self.state.lock().numbered.0;
        *numbered += 1;
        *numbered
    }

    /// Makes a number and a parker for one thread.
    pub fn thread(&self) -> BoardThread {
        let numbered = &mut self.state.lock().numbered.1;
        *numbered += 1;
        BoardThread { number: *numbered, parker: Parker::new() }
    }

    /// Adds a queue whose slots are all ready.
    pub fn add(&self, number: QueueNumber, slots: usize) {
        let mut state = self.state.lock();
        let at = state.queues.partition_point(|queue| queue.number < number);
        state.queues.insert(at, BoardQueue { number, slots: vec![SlotState::Ready; slots], lent: 0, turn: 0 });
        if !planted("pool_add") {
            (0..slots).for_each(|_| state.notify_one());
        }
    }

    /// Marks a slot as ready. A ring for a queue that is not on the board changes nothing: the slots of a new queue
    /// are ready.
    pub fn ring(&self, number: QueueNumber, slot: usize) {
        let mut state = self.state.lock();
        let share = state.share(self.threads);
        let Some(queue) = state.queue(number) else { return };
        match &mut queue.slots[slot] {
            SlotState::Lent { rung } => *rung = !planted("pool_ring_lent"),
            asleep @ SlotState::Asleep { .. } => {
                *asleep = SlotState::Ready;
                if queue.lent < share && !planted("pool_ring_notify") {
                    state.notify_one();
                }
            }
            SlotState::Ready | SlotState::Ended => {}
        }
    }

    /// Returns the next thing to do for a thread that holds no loan.
    pub fn next(&self, thread: &BoardThread, now: Instant) -> Next {
        let mut state = self.state.lock();
        state.parked.retain(|parked| parked.thread != thread.number);
        if let Some((queue, slot, due)) = state.lend(self.threads, now) {
            return Next::Work { queue, slot, due };
        }
        if state.stopping && state.queues.is_empty() {
            return Next::End;
        }
        let until = state.next_due(self.threads);
        state.parked.push(Parked { thread: thread.number, unparker: thread.parker.unparker().clone(), until });
        Next::Park(until)
    }

    /// Takes the thread off the parked threads. Returns false if it was notified and so is not among them.
    pub fn unpark(&self, thread: &BoardThread) -> bool {
        let parked = &mut self.state.lock().parked;
        let at = parked.iter().position(|parked| parked.thread == thread.number);
        at.map(|at| parked.swap_remove(at)).is_some()
    }

    /// Takes a slot back from its thread, which calls [`Self::next`] afterwards. Returns whether its queue has ended.
    pub fn give_back(&self, number: QueueNumber, slot: usize, given: Given) -> bool {
        let mut state = self.state.lock();
        let queue = state.queue(number).expect("a queue stays while it has a loan");
        let SlotState::Lent { rung } = queue.slots[slot] else { unreachable!("only a lent slot comes back") };
        queue.lent -= 1;
        queue.slots[slot] = match given {
            Given::Ended => SlotState::Ended,
            Given::Asleep(due) if !rung => SlotState::Asleep { due },
            Given::Ready | Given::Asleep(_) => SlotState::Ready,
        };
        let over = queue.slots.iter().all(|slot| *slot == SlotState::Ended);
        if over {
            state.queues.retain(|queue| queue.number != number);
            if state.stopping && state.queues.is_empty() && !planted("pool_last_queue") {
                state.notify_all();
            }
        }
        over
    }

    /// Whether a queue has no more loans than its share, which becomes smaller when a second queue is added.
    pub fn is_within_share(&self, number: QueueNumber) -> bool {
        let mut state = self.state.lock();
        let share = state.share(self.threads);
        state.queue(number).is_none_or(|queue| queue.lent <= share) || planted("pool_share_of_a_loan")
    }

    /// Lets the threads end once every queue has ended.
    pub fn stop(&self) {
        let mut state = self.state.lock();
        state.stopping = true;
        if !planted("pool_stop") {
            state.notify_all();
        }
    }

    /// Notifies a parked thread in place of a thread that will not come back.
    pub fn replace(&self) {
        self.state.lock().notify_one();
    }
}

impl SlotState {
    /// Returns how the slot can be lent at this time, if it can.
    fn lendable(self, now: Instant) -> Option<Lendable> {
        match self {
            Self::Ready => Some(Lendable::Ready),
            Self::Asleep { due: Some(due) } if due <= now => Some(Lendable::Due),
            Self::Asleep { .. } | Self::Lent { .. } | Self::Ended => None,
        }
    }
}

impl BoardState {
    fn queue(&mut self, number: QueueNumber) -> Option<&mut BoardQueue> {
        let at = self.queues.binary_search_by_key(&number, |queue| queue.number).ok()?;
        Some(&mut self.queues[at])
    }

    /// Returns how many loans one queue may have.
    fn share(&self, threads: usize) -> usize {
        let alone = self.queues.len() <= 1 || planted("pool_share");
        if alone { threads } else { (threads - 1).max(1) }
    }

    /// Lends the next slot that can be lent: the queues take turns, and so do the slots of each queue.
    fn lend(&mut self, threads: usize, now: Instant) -> Option<(QueueNumber, usize, bool)> {
        let share = self.share(threads);
        let count = self.queues.len();
        let last = if planted("pool_queue_turn") { 0 } else { self.last };
        let first = self.queues.partition_point(|queue| queue.number <= last);
        for at in (0..count).map(|step| (first + step) % count) {
            let queue = &mut self.queues[at];
            let slots = queue.slots.len();
            if queue.lent >= share {
                continue;
            }
            for slot in (0..slots).map(|step| (queue.turn + step) % slots) {
                if let Some(how) = queue.slots[slot].lendable(now) {
                    queue.slots[slot] = SlotState::Lent { rung: false };
                    queue.lent += 1;
                    queue.turn = if planted("pool_slot_turn") { 0 } else { slot + 1 };
                    self.last = queue.number;
                    return Some((queue.number, slot, how == Lendable::Due));
                }
            }
        }
        None
    }

    /// Returns the earliest time at which a sleeping slot is due and can be lent.
    fn next_due(&self, threads: usize) -> Option<Instant> {
        let share = self.share(threads);
        let slots = self.queues.iter().filter(|queue| queue.lent < share).flat_map(|queue| &queue.slots);
        let due = |slot: &SlotState| if let SlotState::Asleep { due } = slot { *due } else { None };
        slots.filter_map(due).filter(|_| !planted("pool_timekeeper")).min()
    }

    /// Notifies the parked thread that would wake up last by itself.
    fn notify_one(&mut self) {
        let latest = |parked: &Parked| (parked.until.is_none() != planted("pool_notify_keeper"), parked.until);
        if let Some(at) = (0..self.parked.len()).max_by_key(|at| latest(&self.parked[*at])) {
            self.parked.swap_remove(at).unparker.unpark();
        }
    }

    fn notify_all(&mut self) {
        self.parked.drain(..).for_each(|parked| parked.unparker.unpark());
    }
}

#[cfg(all(test, not(any(loom, drainq_shuttle))))]
#[path = "shared_scheduler_board_tests.rs"]
mod tests;
