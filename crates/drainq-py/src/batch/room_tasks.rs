//! The asyncio tasks that wait for room in a partition. A drain thread wakes them.
//!
//! # Invariants
//! 1. A task enters with the GIL held, and is notified of the room that there is then. A drain thread takes items
//!    without the GIL, and notifies the tasks as soon as it holds the GIL. So either the task sees the room, or the
//!    drain thread finds the task.
//! 2. A notification is a token (`drainq_core::wait::tickets`). For one place there is one unused token; a task that
//!    ends without having used its token passes it on.
//! 3. In a queue with a capacity, or with weights, each pass notifies all tasks, because the first may need more than
//!    there is.

use crate::batch::types::item::Item;
use crate::waiting::WaitingPlace;
use crate::waiting::event_loops::EventLoops;
use drainq_core::batch::{BatchQueue, PartitionId};
use drainq_core::sync::Mutex;
use drainq_core::wait::tickets::{Offer, Request, Stalled, Ticket, Tickets, Wake, Wakes};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The tasks that wait for room in the partitions of one queue.
pub struct RoomTasks {
    queue: Arc<BatchQueue<Item>>,
    waiting: Mutex<ByPartition>,
    /// The number of tasks that wait.
    count: AtomicUsize,
    pub event_loops: Arc<EventLoops>,
}

#[derive(Default)]
struct ByPartition {
    partitions: BTreeMap<PartitionId, Tickets>,
    last_ticket: Ticket,
}

impl RoomTasks {
    /// Makes an empty line of tasks for room in this queue.
    pub fn new(queue: Arc<BatchQueue<Item>>) -> Self {
        Self { queue, waiting: Mutex::default(), count: AtomicUsize::new(0), event_loops: Arc::default() }
    }

    /// Wakes the tasks for which there is room; all of them once the queue is closed.
    #[inline]
    pub fn wake(&self) {
        if self.count.load(Ordering::Relaxed) > 0 {
            self.change(|_| ());
        }
    }

    /// Changes the waiters, notifies those for which there is room, and wakes them without the lock.
    fn change<R>(&self, change: impl FnOnce(&mut ByPartition) -> R) -> R {
        let (answer, mut wakes) = {
            let mut waiting = self.waiting.lock();
            let answer = change(&mut waiting);
            let wakes = waiting.notify(&self.queue);
            self.count.store(waiting.blocked(), Ordering::Relaxed);
            (answer, wakes)
        };
        while !wakes.is_empty() {
            // A loop that does not run: the token goes to the next task.
            let unreached: Vec<_> =
                wakes.into_iter().filter_map(|(at, ticket, waker)| (!waker.wake()).then_some((at, ticket))).collect();
            let mut waiting = self.waiting.lock();
            for (partition, ticket) in unreached {
                if let Some(tickets) = waiting.partitions.get_mut(&partition) {
                    tickets.lapse(ticket);
                }
            }
            wakes = waiting.notify(&self.queue);
        }
        answer
    }
}

impl ByPartition {
    fn notify(&mut self, queue: &BatchQueue<Item>) -> Wakes<PartitionId> {
        let mut wakes = Wakes::new();
        for (partition, tickets) in &mut self.partitions {
            let offer = if queue.is_running() { Offer::of(queue.room_in(*partition)) } else { Offer::END };
            tickets.notify(offer, *partition, &mut wakes);
        }
        wakes
    }

    fn blocked(&self) -> usize {
        self.partitions.values().map(Tickets::blocked).sum()
    }
}

/// The place of one task among those that wait for room in a partition.
pub struct RoomPlace {
    tasks: Arc<RoomTasks>,
    partition: PartitionId,
    ticket: Option<Ticket>,
}

impl RoomPlace {
    /// Makes a place that is not entered.
    pub fn new(tasks: Arc<RoomTasks>, partition: PartitionId) -> Self {
        Self { tasks, partition, ticket: None }
    }
}

impl WaitingPlace for RoomPlace {
    fn enter(&mut self, wake: Box<dyn Wake>) {
        let (partition, former) = (self.partition, self.ticket);
        let (ticket, _former) = self.tasks.change(|waiting| {
            let ticket = former.unwrap_or(waiting.last_ticket + 1);
            waiting.last_ticket = waiting.last_ticket.max(ticket);
            let tickets = waiting.partitions.entry(partition).or_default();
            (ticket, tickets.enter(ticket, Request::of(1), wake))
        });
        self.ticket = Some(ticket);
    }

    /// Returns `None`: only threads look for stalled waiters, and no thread waits here.
    fn find_stalled(&mut self) -> Option<Stalled> {
        None
    }

    fn pass_stalled_on(&self, _stalled: Stalled) {}
}

impl Drop for RoomPlace {
    fn drop(&mut self) {
        let (Some(ticket), partition) = (self.ticket, self.partition) else { return };
        let _waker = self.tasks.change(|waiting| {
            let tickets = waiting.partitions.get_mut(&partition)?;
            let waker = tickets.leave(ticket);
            if tickets.blocked() == 0 {
                waiting.partitions.remove(&partition);
            }
            waker
        });
    }
}
