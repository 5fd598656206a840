//! Who waits, in order of arrival, and who has been woken and has not run yet.
//!
//! A wake-up is a token, not an item: the woken waiter tries again, and if another was faster it
//! enters again under its old number, so it keeps its seniority. A token that its owner will not
//! use (timeout, Ctrl-C, cancellation) goes to the next in line. So does a token whose owner does
//! not run (its event loop stands still): it *lapses* when another waiter finds it unused for as
//! long as that one slept between two looks at the [`Pulse`].
//!
//! A waiter says how many items or places it *needs* to go on. One that needs several is woken when
//! that many are free; if they never can be, because a full sub-queue keeps producers out, the first
//! such waiter is woken to take what is there and hold it.
//!
//! # Invariants
//! 1. `tokens` holds the tickets that were woken and have not left, re-entered or lapsed; `promised`
//!    is the sum of their needs.
//! 2. After [`WaitList::wake`] with an offer: no waiter in line needs at most what is available and
//!    not promised. So nobody sleeps beside something to take, and nobody is woken for nothing.
//! 3. A ticket is never issued twice, so a late `leave` of one that is gone does nothing.
//! 4. `holder` is the only waiter that holds items while it waits for more.
//! 5. The pulse tells the smallest number of a token under way, and the last number given. It is a
//!    hint: a thread reads it without the lock and takes the lock before it acts on it.
//!
//! Source: the waiter lists of `asyncio.Queue` (a cancelled getter wakes the next one); the
//! bound on wake-ups, the needs and the lapse are ours.

use super::selector::Slot;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, planted};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How to reach one waiter: unparks a thread, or asks an event loop to resume a task.
pub trait Wake: Send {
    /// Wakes the waiter; false if it cannot be reached now, so the token goes on.
    ///
    /// Called without any lock held.
    fn wake(self: Box<Self>) -> bool;
}

/// A waiter's place in line.
pub type Ticket = u64;

/// Which line a waiter stands in: that of the getters, or of the putters of one sub-queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Waits for something to take.
    Getters,
    /// Waits for room in a sub-queue.
    Putters(Slot),
}

/// Waiters that are to be woken once the lock is released.
pub type Wakes = Vec<(Line, Ticket, Box<dyn Wake>)>;

/// What there is for the waiters of a line.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Items to take, or places to fill; `usize::MAX` if every waiter is to be woken, for good.
    pub available: usize,
    /// Whether a full sub-queue keeps producers out until something is taken.
    pub is_stuck: bool,
}

struct Waiter {
    waker: Box<dyn Wake>,
    need: usize,
}

struct Token {
    need: usize,
    is_bulk: bool,
    number: u64,
}

/// Which tokens of a line are under way, for threads that do not hold the lock.
#[derive(Debug)]
pub struct Pulse {
    oldest: AtomicU64,
    last: AtomicU64,
}

/// The number of no token.
const NONE: u64 = u64::MAX;

impl Pulse {
    /// The tokens that were under way at the last look and still are: the number of the youngest.
    ///
    /// `look` is what the call before returned and is what the next one gets.
    pub fn stalled(&self, look: &mut Option<u64>) -> Option<u64> {
        let (oldest, last) = (self.oldest.load(Ordering::Relaxed), self.last.load(Ordering::Relaxed));
        let before = look.replace(last);
        before.filter(|&before| oldest != NONE && oldest <= before)
    }
}

/// A FIFO line of waiters.
pub struct WaitList {
    waiting: BTreeMap<Ticket, Waiter>,
    tokens: BTreeMap<Ticket, Token>,
    promised: usize,
    /// Woken, and given up on: they count as blocked until they run.
    lapsed: BTreeSet<Ticket>,
    holder: Option<Ticket>,
    /// Tokens by number, the oldest first; may hold some that are gone.
    by_age: VecDeque<(Ticket, u64)>,
    given: u64,
    pulse: Arc<Pulse>,
}

impl Default for WaitList {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            tokens: BTreeMap::new(),
            promised: 0,
            lapsed: BTreeSet::new(),
            holder: None,
            by_age: VecDeque::new(),
            given: 0,
            pulse: Arc::new(Pulse { oldest: AtomicU64::new(NONE), last: AtomicU64::new(0) }),
        }
    }
}

impl WaitList {
    /// Whether nobody waits for a wake-up.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many wait or have been woken and not run yet.
    pub fn blocked(&self) -> usize {
        self.waiting.len() + self.tokens.len() + self.lapsed.len()
    }

    /// What a thread in line reads without the lock.
    pub fn pulse(&self) -> Arc<Pulse> {
        self.pulse.clone()
    }

    /// Lines up at the place of `ticket`; a new ticket is larger than all before it.
    ///
    /// Returns the holder's former waker, to be dropped without the lock.
    pub fn enter(&mut self, ticket: Ticket, need: usize, waker: Box<dyn Wake>) -> Option<Box<dyn Wake>> {
        self.spend(ticket);
        self.waiting.insert(ticket, Waiter { waker, need }).map(|former| former.waker)
    }

    /// Leaves the line, or gives a wake-up back; [`WaitList::wake`] must follow.
    ///
    /// Returns the waker, to be dropped without the lock.
    pub fn leave(&mut self, ticket: Ticket) -> Option<Box<dyn Wake>> {
        if !planted("multi_spent") {
            self.spend(ticket);
        }
        if self.holder == Some(ticket) {
            self.holder = None;
        }
        self.waiting.remove(&ticket).map(|waiter| waiter.waker)
    }

    /// Takes the wake-ups back that are under way with numbers up to `last`; [`WaitList::wake`] must follow.
    pub fn lapse_up_to(&mut self, last: u64) {
        let overdue = self.tokens.iter().filter(|(_, token)| token.number <= last);
        let overdue: Vec<Ticket> = overdue.map(|(ticket, _)| *ticket).collect();
        for ticket in overdue {
            if !planted("multi_lapse") {
                self.lapse(ticket);
            }
        }
    }

    /// Takes the wake-up of `ticket` back, if it is under way; [`WaitList::wake`] must follow.
    pub fn lapse(&mut self, ticket: Ticket) {
        if self.tokens.contains_key(&ticket) {
            self.spend(ticket);
            self.lapsed.insert(ticket);
        }
    }

    /// Whether `ticket` may hold items while it waits: no other does, and it is the first that needs several.
    pub fn may_hold(&self, ticket: Ticket) -> bool {
        match self.holder {
            Some(holder) => holder == ticket || planted("multi_holder"),
            None => {
                let earlier_token = self.tokens.range(..ticket).any(|(_, token)| token.is_bulk);
                let earlier_waiter = self.waiting.range(..ticket).any(|(_, waiter)| waiter.need > 1);
                (!earlier_token && !earlier_waiter) || planted("multi_holder")
            }
        }
    }

    /// Whether `ticket` holds items while it waits.
    pub fn is_holder(&self, ticket: Ticket) -> bool {
        self.holder == Some(ticket)
    }

    /// `ticket` holds items from now until it leaves.
    pub fn set_holder(&mut self, ticket: Ticket) {
        self.holder = Some(ticket);
    }

    /// Moves waiters to `wakes`, the first ones first, until what is available is promised.
    #[inline]
    pub fn wake(&mut self, offer: Offer, line: Line, wakes: &mut Wakes) {
        while let Some(rest) = offer.available.checked_sub(self.promised).filter(|&rest| rest > 0) {
            let is_next = |(ticket, waiter): &(&Ticket, &Waiter)| {
                waiter.need <= rest || (offer.is_stuck && self.may_hold(**ticket))
            };
            let candidates = if planted("multi_skip") { 1 } else { usize::MAX };
            let next = self.waiting.iter().take(candidates).find(is_next);
            let Some(ticket) = next.map(|(ticket, _)| *ticket) else { return };
            let Some(Waiter { waker, need }) = self.waiting.remove(&ticket) else { return };
            self.give(ticket, need, rest);
            wakes.push((line, ticket, waker));
        }
    }

    fn give(&mut self, ticket: Ticket, need: usize, rest: usize) {
        self.given += 1;
        let number = self.given;
        self.promised += need.min(rest);
        self.tokens.insert(ticket, Token { need: need.min(rest), is_bulk: need > 1, number });
        self.by_age.push_back((ticket, number));
        self.tell();
    }

    /// Forgets the wake-up of `ticket`, used or not.
    fn spend(&mut self, ticket: Ticket) {
        self.lapsed.remove(&ticket);
        if let Some(token) = self.tokens.remove(&ticket) {
            self.promised -= token.need;
            if !planted("multi_pulse") {
                self.tell();
            }
        }
    }

    /// Restores invariant 5.
    fn tell(&mut self) {
        while let Some((ticket, number)) = self.by_age.front() {
            if self.tokens.get(ticket).is_some_and(|token| token.number == *number) {
                break;
            }
            self.by_age.pop_front();
        }
        let oldest = self.by_age.front().map_or(NONE, |(_, number)| *number);
        self.pulse.oldest.store(oldest, Ordering::Relaxed);
        self.pulse.last.store(self.given, Ordering::Relaxed);
    }
}
