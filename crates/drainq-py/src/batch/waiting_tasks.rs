//! The asyncio tasks that wait for room in a partition, for the end of a flush, or for the end of the queue.
//!
//! # Invariants
//! 1. A task enters with the GIL held, and is notified at once if there is room or its end has come. A drain thread
//!    takes items without the GIL. It notifies the tasks as soon as it holds the GIL, and again at the end of its pass.
//!    So does each thread that closes or cuts the queue, or has made its last handler call, with the GIL held. Hence
//!    either the task sees what it waits for, or that thread finds the task. Without a GIL the fences of
//!    `drainq_core::wait::lines` have this effect.
//! 2. A notification is a token (`drainq_core::wait::tickets`). A free place has at most one unused token. A task that
//!    ends without having used its token passes it on.
//! 3. In a queue with a capacity, or with weights, each pass notifies all tasks that wait for room, because the first
//!    may need more than there is.
//! 4. Each task that waits for an end has a line of its own, and an end that has come stays.

use crate::batch::types::item::Item;
use crate::waiting::WaitingPlace;
use crate::waiting::event_loops::EventLoops;
use drainq_core::batch::{BatchQueue, PartitionId};
use drainq_core::wait::lines::Lines;
use drainq_core::wait::tickets::{Offer, Stalled, Ticket, Wake};
use std::sync::Arc;

/// Whether an end has come. Called with the lines locked.
type IsOver = Arc<dyn Fn() -> bool + Send + Sync>;

/// What a task waits for.
#[derive(Clone)]
enum Awaited {
    /// Room in a partition.
    Room(PartitionId),
    /// An end.
    End(IsOver),
}

/// The name of a line: a partition, or the only ticket of the line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Room(PartitionId),
    End(Ticket),
}

/// The tasks that wait for one queue.
pub struct WaitingTasks {
    queue: Arc<BatchQueue<Item>>,
    lines: Lines<Name, Awaited>,
    pub event_loops: Arc<EventLoops>,
}

impl WaitingTasks {
    /// Makes empty lines of tasks for this queue.
    pub fn new(queue: Arc<BatchQueue<Item>>) -> Self {
        Self { queue, lines: Lines::new(), event_loops: Arc::default() }
    }

    /// Wakes the tasks for which there is room, all of them once the queue is closed, and those whose end has come.
    #[inline]
    pub fn wake(&self) {
        self.lines.wake(|awaited| self.offer(awaited));
    }

    fn offer(&self, awaited: &Awaited) -> Offer {
        match awaited {
            Awaited::Room(partition) if self.queue.is_running() => Offer::of(self.queue.room_in(*partition)),
            Awaited::End(is_over) if !is_over() => Offer::of(0),
            _ => Offer::END,
        }
    }
}

/// The place of one task in its line.
pub struct TaskPlace {
    tasks: Arc<WaitingTasks>,
    awaited: Awaited,
    ticket: Option<Ticket>,
}

impl TaskPlace {
    /// Makes a place that is not entered, for a task that waits for room in a partition.
    pub fn for_room(tasks: Arc<WaitingTasks>, partition: PartitionId) -> Self {
        Self { tasks, awaited: Awaited::Room(partition), ticket: None }
    }

    /// Makes a place that is not entered, for a task that waits until `is_over` is true, as it then stays.
    pub fn for_end(tasks: Arc<WaitingTasks>, is_over: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { tasks, awaited: Awaited::End(Arc::new(is_over)), ticket: None }
    }

    fn line(&self, ticket: Ticket) -> Name {
        match &self.awaited {
            Awaited::Room(partition) => Name::Room(*partition),
            Awaited::End(_) => Name::End(ticket),
        }
    }
}

impl WaitingPlace for TaskPlace {
    fn enter(&mut self, wake: Box<dyn Wake>) {
        let (name, awaited) = (|ticket| self.line(ticket), || self.awaited.clone());
        let look = |awaited: &Awaited| self.tasks.offer(awaited);
        let ticket = self.tasks.lines.enter(self.ticket, name, awaited, wake, look);
        self.ticket = Some(ticket);
    }

    /// Returns `None`: only threads look for stalled waiters, and no thread waits here.
    fn find_stalled(&mut self) -> Option<Stalled> {
        None
    }

    fn pass_stalled_on(&self, _stalled: Stalled) {}
}

impl Drop for TaskPlace {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        self.tasks.lines.leave(self.line(ticket), ticket, |awaited| self.tasks.offer(awaited));
    }
}
