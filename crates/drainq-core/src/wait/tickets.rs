//! The waiters of a queue, under the lock of that queue: in order of arrival, each with a ticket.
//!
//! The multi-queue and the set queue keep their waiters here. A notification is a *token*, a permission to try, not an
//! item. The notified waiter tries again. If another thread was faster, the waiter enters again with its old ticket and
//! so keeps its place. A token that its waiter will not use (timeout, Ctrl-C, cancellation) goes to the next waiter. So
//! does a token whose waiter does not run, because its event loop is busy or stopped: the token *lapses* when another
//! waiter finds the token unused at two reads of [`TokenNumbers`] in a row.
//!
//! Each waiter *needs* a number of items, or an amount of room. A waiter that needs several items is notified when
//! there are enough. If there may never be enough, because a full sub-queue blocks its producers, the first such waiter
//! is notified to take the items that are there and *hold* them.
//!
//! # Invariants
//! 1. `tokens` holds the tickets whose waiters were notified and have neither left nor entered again, and whose token
//!    has not lapsed. `promised` is the sum of `Token::need`, which is at most what was available for the token.
//! 2. After [`Tickets::notify`] each waiter in `waiting` needs more than the unpromised rest of what is available. So
//!    no waiter sleeps while there is enough for it. `notify` never promises more than is available.
//! 3. A ticket is never given out twice, so a late `leave` of a ticket that is gone does nothing.
//! 4. `holder` is the only waiter that holds items while it waits for more.
//! 5. `numbers` has the smallest number of an unused token, and the last number given. They are hints: a thread reads
//!    them without the lock, and takes the lock before it acts on them.
//!
//! Source: the waiter lists of `asyncio.Queue` (a cancelled getter wakes the next one); the bound on notifications, the
//! needs and the lapse are added here.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, planted};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The means to resume one waiter: unparks a thread, or asks an event loop to resume a task.
pub trait Wake: Send {
    /// Wakes the waiter. Returns false if the waiter cannot be reached now, so that its token goes to the next waiter.
    ///
    /// The caller holds no lock.
    fn wake(self: Box<Self>) -> bool;
}

/// The number of a waiter. A smaller number is notified first.
pub type Ticket = u64;

/// Notified waiters to wake once the lock is released. `G` names the [`Tickets`] of each.
pub type Wakes<G> = Vec<(G, Ticket, Box<dyn Wake>)>;

/// The request of a waiter.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The number of items, or the amount of room, that the waiter needs.
    pub need: usize,
    /// The tag by which [`Tickets::notify_tagged`] finds the waiter.
    pub tag: u64,
}

impl Request {
    /// Makes a request for `need` items, or for as much room, without a tag.
    pub fn of(need: usize) -> Self {
        Self { need, tag: 0 }
    }
}

/// The items or the room that waiters can have.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Items to take, or room to fill; `usize::MAX` notifies every waiter.
    pub available: usize,
    /// Whether a full sub-queue blocks its producers until an item is taken.
    pub is_stuck: bool,
}

impl Offer {
    /// The offer that ends every wait, as at a shutdown.
    pub const END: Self = Self::of(usize::MAX);

    /// Makes an offer of `available` items, or of as much room.
    pub const fn of(available: usize) -> Self {
        Self { available, is_stuck: false }
    }
}

struct Waiting {
    waker: Box<dyn Wake>,
    request: Request,
}

struct Token {
    need: usize,
    is_bulk: bool,
    number: u64,
}

/// The numbers of the tokens, for threads that do not hold the lock.
#[derive(Debug)]
pub struct TokenNumbers {
    oldest_unused: AtomicU64,
    last: AtomicU64,
}

/// The value of `oldest_unused` if no token is unused.
const NONE: u64 = u64::MAX;

impl TokenNumbers {
    /// Finds the tokens that were given before the previous call and are still unused.
    ///
    /// The caller keeps `before` from call to call. It holds the last token number given up to the previous call.
    pub fn stalled(&self, before: &mut Option<u64>) -> Option<Stalled> {
        let (oldest, last) = (self.oldest_unused.load(Ordering::Relaxed), self.last.load(Ordering::Relaxed));
        before.replace(last).filter(|&before| oldest != NONE && oldest <= before).map(Stalled)
    }
}

/// Tokens that their waiters have not used for long, by the number of the youngest.
#[derive(Clone, Copy, Debug)]
pub struct Stalled(u64);

/// Waiters for one thing, and the tokens that they were given.
pub struct Tickets {
    waiting: BTreeMap<Ticket, Waiting>,
    tokens: BTreeMap<Ticket, Token>,
    promised: usize,
    /// Waiters whose token has lapsed. They count as blocked until they run.
    lapsed: BTreeSet<Ticket>,
    holder: Option<Ticket>,
    /// Tokens by number, the oldest first; used and lapsed tokens may still be listed.
    by_age: VecDeque<(Ticket, u64)>,
    given: u64,
    numbers: Arc<TokenNumbers>,
}

impl Default for Tickets {
    fn default() -> Self {
        let numbers = TokenNumbers { oldest_unused: AtomicU64::new(NONE), last: AtomicU64::new(0) };
        Self {
            waiting: BTreeMap::new(),
            tokens: BTreeMap::new(),
            promised: 0,
            lapsed: BTreeSet::new(),
            holder: None,
            by_age: VecDeque::new(),
            given: 0,
            numbers: Arc::new(numbers),
        }
    }
}

impl Tickets {
    /// Whether there is no waiter to notify.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the number of waiters: those to notify, and those that were notified and have not run yet.
    pub fn blocked(&self) -> usize {
        self.waiting.len() + self.tokens.len() + self.lapsed.len()
    }

    /// Returns the numbers that a waiter reads without the lock.
    pub fn numbers(&self) -> Arc<TokenNumbers> {
        self.numbers.clone()
    }

    /// Adds a waiter at the position of its ticket. A new ticket is larger than all earlier tickets. If the ticket has
    /// a token, the token counts as used. [`Tickets::notify`] must follow.
    ///
    /// Returns the former waker of the ticket, to be dropped without the lock.
    pub fn enter(&mut self, ticket: Ticket, request: Request, waker: Box<dyn Wake>) -> Option<Box<dyn Wake>> {
        self.spend(ticket);
        self.waiting.insert(ticket, Waiting { waker, request }).map(|former| former.waker)
    }

    /// Removes a waiter, and its token; [`Tickets::notify`] must follow.
    ///
    /// Returns its waker, to be dropped without the lock.
    pub fn leave(&mut self, ticket: Ticket) -> Option<Box<dyn Wake>> {
        if !planted("tickets_spent") {
            self.spend(ticket);
        }
        if self.holder == Some(ticket) {
            self.holder = None;
        }
        self.waiting.remove(&ticket).map(|waiting| waiting.waker)
    }

    /// Takes back the tokens of stalled waiters; [`Tickets::notify`] must follow.
    pub fn lapse_up_to(&mut self, Stalled(last): Stalled) {
        let overdue = self.tokens.iter().filter(|(_, token)| token.number <= last);
        let overdue: Vec<Ticket> = overdue.map(|(ticket, _)| *ticket).collect();
        for ticket in overdue {
            if !planted("tickets_lapse") {
                self.lapse(ticket);
            }
        }
    }

    /// Takes back the token of `ticket`, if it is unused; [`Tickets::notify`] must follow.
    pub fn lapse(&mut self, ticket: Ticket) {
        if self.tokens.contains_key(&ticket) {
            self.spend(ticket);
            self.lapsed.insert(ticket);
        }
    }

    /// Whether `ticket` may hold items while it waits: no other waiter holds items, and `ticket` is the first that
    /// needs several items.
    pub fn may_hold(&self, ticket: Ticket) -> bool {
        match self.holder {
            Some(holder) => holder == ticket || planted("tickets_holder"),
            None => {
                let earlier_token = self.tokens.range(..ticket).any(|(_, token)| token.is_bulk);
                let earlier_waiter = self.waiting.range(..ticket).any(|(_, waiting)| waiting.request.need > 1);
                (!earlier_token && !earlier_waiter) || planted("tickets_holder")
            }
        }
    }

    /// Whether `ticket` holds items while it waits.
    pub fn is_holder(&self, ticket: Ticket) -> bool {
        self.holder == Some(ticket)
    }

    /// Makes `ticket` the holder until it leaves.
    pub fn set_holder(&mut self, ticket: Ticket) {
        self.holder = Some(ticket);
    }

    /// Notifies waiters in order, until no waiter can use what is available and unpromised. Moves them to `wakes`.
    #[inline]
    pub fn notify<G: Copy>(&mut self, offer: Offer, from: G, wakes: &mut Wakes<G>) {
        while let Some(rest) = offer.available.checked_sub(self.promised).filter(|&rest| rest > 0) {
            let is_next = |(ticket, waiting): &(&Ticket, &Waiting)| {
                waiting.request.need <= rest || (offer.is_stuck && self.may_hold(**ticket))
            };
            let candidates = if planted("tickets_skip") { 1 } else { usize::MAX };
            let next = self.waiting.iter().take(candidates).find(is_next);
            let Some(ticket) = next.map(|(ticket, _)| *ticket) else { return };
            let Some(Waiting { waker, request }) = self.waiting.remove(&ticket) else { return };
            self.give(ticket, request.need, rest);
            wakes.push((from, ticket, waker));
        }
    }

    /// Notifies all waiters with this tag, and promises nothing to them.
    pub fn notify_tagged<G: Copy>(&mut self, tag: u64, from: G, wakes: &mut Wakes<G>) {
        while let Some(ticket) = self.waiting.iter().find(|(_, at)| at.request.tag == tag).map(|(ticket, _)| *ticket) {
            let Some(Waiting { waker, request }) = self.waiting.remove(&ticket) else { return };
            self.give(ticket, request.need, 0);
            wakes.push((from, ticket, waker));
        }
    }

    fn give(&mut self, ticket: Ticket, need: usize, rest: usize) {
        self.given += 1;
        let number = self.given;
        self.promised += need.min(rest);
        self.tokens.insert(ticket, Token { need: need.min(rest), is_bulk: need > 1, number });
        self.by_age.push_back((ticket, number));
        self.update_numbers();
    }

    /// Removes the token of `ticket`, used or not.
    fn spend(&mut self, ticket: Ticket) {
        self.lapsed.remove(&ticket);
        if let Some(token) = self.tokens.remove(&ticket) {
            self.promised -= token.need;
            if !planted("tickets_numbers") {
                self.update_numbers();
            }
        }
    }

    /// Restores invariant 5.
    fn update_numbers(&mut self) {
        while let Some((ticket, number)) = self.by_age.front() {
            if self.tokens.get(ticket).is_some_and(|token| token.number == *number) {
                break;
            }
            self.by_age.pop_front();
        }
        let oldest = self.by_age.front().map_or(NONE, |(_, number)| *number);
        self.numbers.oldest_unused.store(oldest, Ordering::Relaxed);
        self.numbers.last.store(self.given, Ordering::Relaxed);
    }
}
