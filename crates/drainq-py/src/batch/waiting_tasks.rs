//! The asyncio tasks that wait for room in a partition, for the end of a flush, or for the end of the queue.
//!
//! # Invariants
//! 1. A task enters with the GIL held, and is notified of the room or the end that there is then. A drain thread takes
//!    items without the GIL, and notifies the tasks as soon as it holds the GIL. It ends its pass with the GIL held, and
//!    then notifies them again, as does each thread that closes or cuts the queue, or ends calling its handlers. So
//!    either the task sees what it waits for, or that thread finds the task. Without a GIL a fence on both sides has
//!    this effect: the task is counted before it looks, and the room is there before the thread looks at the count.
//! 2. A notification is a token (`drainq_core::wait::tickets`). For one place there is one unused token; a task that
//!    ends without having used its token passes it on.
//! 3. In a queue with a capacity, or with weights, each pass notifies all tasks that wait for room, because the first
//!    may need more than there is.
//! 4. Each task that waits for an end has a line of its own, and an end that has come stays.

use crate::batch::types::item::Item;
use crate::objects;
use crate::waiting::WaitingPlace;
use crate::waiting::event_loops::EventLoops;
use drainq_core::batch::{BatchQueue, PartitionId};
use drainq_core::sync::Mutex;
use drainq_core::wait::tickets::{Offer, Request, Stalled, Ticket, Tickets, Wake, Wakes};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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

struct Line {
    awaited: Awaited,
    tickets: Tickets,
}

#[derive(Default)]
struct Lines {
    by_name: BTreeMap<Name, Line>,
    last_ticket: Ticket,
}

/// The tasks that wait for one queue.
pub struct WaitingTasks {
    queue: Arc<BatchQueue<Item>>,
    lines: Mutex<Lines>,
    /// The number of tasks that wait.
    count: AtomicUsize,
    pub event_loops: Arc<EventLoops>,
}

impl WaitingTasks {
    /// Makes empty lines of tasks for this queue.
    pub fn new(queue: Arc<BatchQueue<Item>>) -> Self {
        Self { queue, lines: Mutex::default(), count: AtomicUsize::new(0), event_loops: Arc::default() }
    }

    /// Wakes the tasks for which there is room, all of them once the queue is closed, and those whose end has come.
    #[inline]
    pub fn wake(&self) {
        objects::fence();
        if self.count.load(Ordering::Relaxed) > 0 {
            self.change(|_| ());
        }
    }

    /// Changes the lines, notifies the tasks that have what they wait for, and wakes them without the lock.
    fn change<R>(&self, change: impl FnOnce(&mut Lines) -> R) -> R {
        let (answer, mut wakes) = {
            let mut lines = self.lines.lock();
            let answer = change(&mut lines);
            self.count.store(lines.blocked(), Ordering::Relaxed);
            objects::fence();
            let wakes = lines.notify(&self.queue);
            self.count.store(lines.blocked(), Ordering::Relaxed);
            (answer, wakes)
        };
        while !wakes.is_empty() {
            // A loop that does not run: the token goes to the next task.
            let unreached: Vec<_> =
                wakes.into_iter().filter_map(|(at, ticket, waker)| (!waker.wake()).then_some((at, ticket))).collect();
            let mut lines = self.lines.lock();
            for (name, ticket) in unreached {
                if let Some(line) = lines.by_name.get_mut(&name) {
                    line.tickets.lapse(ticket);
                }
            }
            wakes = lines.notify(&self.queue);
        }
        answer
    }
}

impl Lines {
    fn notify(&mut self, queue: &BatchQueue<Item>) -> Wakes<Name> {
        let mut wakes = Wakes::new();
        for (name, line) in &mut self.by_name {
            let offer = match &line.awaited {
                Awaited::Room(partition) if queue.is_running() => Offer::of(queue.room_in(*partition)),
                Awaited::End(is_over) if !is_over() => Offer::of(0),
                _ => Offer::END,
            };
            line.tickets.notify(offer, *name, &mut wakes);
        }
        wakes
    }

    fn blocked(&self) -> usize {
        self.by_name.values().map(|line| line.tickets.blocked()).sum()
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

    /// Makes a place that is not entered, for a task that waits until `is_over`, which then stays so.
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
        let (ticket, _former) = self.tasks.change(|lines| {
            let ticket = self.ticket.unwrap_or(lines.last_ticket + 1);
            lines.last_ticket = lines.last_ticket.max(ticket);
            let new = || Line { awaited: self.awaited.clone(), tickets: Tickets::default() };
            let line = lines.by_name.entry(self.line(ticket)).or_insert_with(new);
            (ticket, line.tickets.enter(ticket, Request::of(1), wake))
        });
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
        let name = self.line(ticket);
        let _gone = self.tasks.change(|lines| {
            let line = lines.by_name.get_mut(&name)?;
            let waker = line.tickets.leave(ticket);
            let empty = (line.tickets.blocked() == 0).then(|| lines.by_name.remove(&name));
            Some((waker, empty))
        });
    }
}
