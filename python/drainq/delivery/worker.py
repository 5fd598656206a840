"""Worker: the queue in front of every worker, with produce, flush, close and stats.

1. The books (:mod:`drainq.delivery.accounting`) count each item that reached the worker in one place.
2. ``flush`` and ``close`` return by their deadline: they wait for other threads, and send in their own thread only
   without a deadline.
3. A closed worker accepts nothing: ``produce`` returns False, even if the shared queue is open.
4. On a shared queue an item type belongs to one worker. A second worker that asks for the type gets an error.
5. In a forked child a worker starts empty, with counters at zero. The parent keeps the items and sends them.

Source: SkyWalking's workers, whose shutdown loses merged items that were not flushed. This one flushes them.
"""

from __future__ import annotations

import abc
import itertools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from drainq._native import BatchQueue
from drainq.arguments import Seconds, check_clock_if_given, flag, seconds_or_none
from drainq.batch_config import BatchQueueConfig
from drainq.clock import Clock, SystemClock
from drainq.delivery.accounting import Books, Outcome, WorkerStats
from drainq.delivery.sink_contract import DeliveryStopped, Refused, raise_wrapped
from drainq.delivery.type_owners import ItemTypes
from drainq.errors import DrainqError
from drainq.fork import renew_in_child
from drainq.pickling import refuse
from drainq.statistics import BatchQueueStats
from drainq.timer import SHARED

log = logging.getLogger("drainq")
_numbers = itertools.count(1)

CHECK_AGAIN = 5.0  # seconds after a stop until producers may try again


class _Handler:
    """The queue's handler: lets a worker tell its queue's calls from a user's."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def consume(self, batch: list[Any]) -> None:
        self._worker._from_queue(batch)

    def on_idle(self) -> None:
        self._worker._when_idle()

    def on_close(self) -> None:
        self._worker.on_close()


class Worker(abc.ABC):
    """The base of the workers. A subclass defines how to ``_take`` a batch, and how to end.

    Args:
        queue: a batch queue to share. The worker gets the items of the classes that it is made for, of the classes of
            :meth:`route`, and of the class of each item that is produced through it; a class belongs to one worker.
            None: the first ``produce`` opens a queue for this worker alone.
        weight: the load of one item of its types, for a shared queue with a balancer.
        clock: decides when an interval is over.
        log_values: show items and whole texts of errors in log lines and errors. By default these show types, codes and
            names.
    Raises:
        ValueError, TypeError: an argument is of the wrong kind.
    """

    _item_types: Iterable[type] = ()  # classes of the items that the worker is made for
    _keeps = False  # whether a delayed queue keeps items that cannot be sent

    def __init__(
        self,
        *,
        queue: BatchQueue | None = None,
        weight: float = 1.0,
        clock: Clock | None = None,
        log_values: bool = False,
    ) -> None:
        self._log_values = flag("log_values", log_values)
        if not (queue is None or isinstance(queue, BatchQueue)):
            raise TypeError(f"queue must be a drainq.BatchQueue to share, or None for one of its own, got {queue!r}")
        check_clock_if_given(clock)
        if isinstance(weight, bool) or not isinstance(weight, (int, float)):
            raise TypeError(f"weight must be a number, got {weight!r}")
        if not 0 < weight < math.inf:
            raise ValueError(f"weight must be more than 0 and finite, got {weight!r}")
        self._clock = SystemClock() if clock is None else clock
        self._queue = queue
        self._types = None if queue is None else ItemTypes(queue, float(weight))
        self._books = Books()
        self._closed = False
        self._begin()
        renew_in_child(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._arrived = 0  # items that the queue passed to this worker
        self._in_handler = 0  # of these, those whose call has not returned
        self._given_up_before = 0  # refused and lost items at the last flush
        self._stopped_at = -math.inf
        self._ended = self._released = False
        self._put: Callable[[Any], bool] | None = None  # the queue's ``produce``, while nothing is to be looked at

    # -- for subclasses ---------------------------------------------------------------------------

    @abc.abstractmethod
    def _take(self, batch: list[Any]) -> None:
        """Take a batch that is counted as pending. Account for each item of it, now or later.

        Raises:
            Exception: some items are refused or lost, and counted so. The queue counts the batch as failed.
        """

    @abc.abstractmethod
    def _forget(self) -> None:
        """Drop the held items, and leave connections to the parent process. Called in a forked child."""

    def _when_idle(self) -> None:  # noqa: B027
        """Do pending work, because the queue is idle."""

    def _flush_held(self, deadline: float | None) -> bool:
        """Send the held items by a deadline on the monotonic clock. Return False if that failed."""
        return True

    def _give_up(self) -> None:  # noqa: B027
        """Cancel all attempts, because the time of ``close`` is nearly over."""

    def _end(self, deadline: float | None) -> bool:
        """Send the held items for the last time, and account for the rest. Called once.

        Returns:
            True if no send is running, so that resources can be released.
        """
        return True

    def _release(self) -> None:  # noqa: B027
        """Release resources. Called once, when no send is running."""

    def _stopped_by(self) -> Exception | None:
        """Return the error for which producers are refused, or None."""
        return None

    def _when_stopped(self) -> None:
        """Make producers check :meth:`_stopped_by`, which has an error from now on."""
        self._put = None

    def _config(self) -> BatchQueueConfig:
        """Return the settings of the worker's own queue, without its consumer."""
        return BatchQueueConfig(threads=1, partitions=1, strategy="blocking")

    # -- the handler ------------------------------------------------------------------------------

    def __call__(self, batch: list[Any]) -> None:
        """Take a batch, as a handler does; a worker can be a handler of any batch queue."""
        self._books.arrive(len(batch))
        self._take(batch)

    def consume(self, batch: list[Any]) -> None:
        """Take a batch from a queue. An error shows no values, unless ``log_values``."""
        self._books.arrive(len(batch))
        self._take_for_queue(batch)

    def on_idle(self) -> None:
        """Do due work. A queue calls this when it is idle."""
        self._when_idle()

    def on_close(self) -> None:
        """Send the held items, and stop. The queue calls this at its end, unless ``close`` came before.

        A worker that is dropped, or still open when the interpreter exits, therefore loses nothing.
        """
        if self._begin_to_close():
            self._finish(None)
        elif self._ended:
            self._release_once()  # a call of the sink that outlasted ``close`` has returned

    def _from_queue(self, batch: list[Any]) -> None:
        count = len(batch)
        with self._lock:
            self._arrived += count
            self._in_handler += count
            if self._ended:  # the books were closed before it came here, and say that it is lost
                self._books.move(count, Outcome.LOST, Outcome.PENDING)
            else:
                self._books.arrive(count)
        try:
            self._take_for_queue(batch)
        finally:
            with self._lock:
                self._in_handler -= count

    def _take_for_queue(self, batch: list[Any]) -> None:
        try:
            self._take(batch)
        except DrainqError:
            raise
        except Exception as error:
            raise_wrapped(Refused, f"{type(self).__name__}: {len(batch)} items were refused", error, self._log_values)

    # -- the producer's side ----------------------------------------------------------------------

    def produce(self, item: Any) -> bool:
        """Queue one item, waiting for room. Return False if the queue or the worker is closed.

        Raises:
            DeliveryStopped: the sink fails for a reason that waiting does not change.
        """
        put = self._put
        if put is not None:
            return put(item)
        queue = self._open(type(item))
        return queue is not None and queue.produce(item)

    def produce_many(self, items: Iterable[Any]) -> int:
        """Queue items in order, waiting for room. Return how many were accepted.

        Raises:
            DeliveryStopped: the sink fails for a reason that waiting does not change.
        """
        batch = list(items)
        if self._types is None:
            queue = self._open(type(batch[0])) if batch else None
            return 0 if queue is None else queue.produce_many(batch)
        accepted = 0
        for kind, group in itertools.groupby(batch, key=type):
            queue = self._open(kind)
            accepted += 0 if queue is None else queue.produce_many(list(group))
        return accepted

    def route(self, *types: type) -> None:
        """Take all items of these classes from the shared queue, also those that were not produced by this worker.

        Items of a class without a worker are dropped, and the queue counts them as ``unrouted``.

        Args:
            types: the exact classes, without subclasses.
        Raises:
            ValueError: a class belongs to another worker, or this worker shares no queue.
        """
        if self._types is None:
            raise ValueError(f"this {type(self).__name__} has a queue of its own; give it queue= to share one")
        with self._opening:
            for kind in types:
                self._types.add(kind, self, _Handler(self))

    def flush(self, timeout: Seconds | None = None) -> bool:
        """Send all items accepted so far, and the due messages of the delayed queue.

        Args:
            timeout: seconds after which it returns, whatever the sink does. None: as long as it takes.
        Returns:
            False if time ran out, if held items could not be sent (the next flush tries them again), or if items were
            refused or lost since the last flush. Items in the delayed queue are no failure.
        """
        timeout = seconds_or_none("timeout", timeout)
        deadline = _deadline(timeout)
        done = self._queue is None or self._queue.flush(timeout)
        done = self._flush_held(deadline) and done
        given_up = self._books.count(Outcome.REFUSED) + self._books.count(Outcome.LOST)
        with self._lock:
            before, self._given_up_before = self._given_up_before, given_up
        return done and given_up <= before

    def close(self, timeout: Seconds | None = None) -> bool:
        """Handle the queued items, send the held ones, and stop. A shared queue stays open, without this worker.

        Args:
            timeout: seconds after which it returns, whatever the sink does. None: as long as it takes. At its last
                quarter, of at most a second, running sends are cancelled. With a delayed queue they are cancelled at
                the last half, of at most 5 seconds, and the unsent items go to the delayed queue.
        Returns:
            False if an item was refused or lost; ``stats()`` counts them.
        """
        return self._close_once(seconds_or_none("timeout", timeout))

    def stats(self) -> WorkerStats:
        """Return the counters."""
        with self._lock:
            queue = None if self._queue is None else self._queue.stats()
            per_type = {} if queue is None else {kind: of.accepted for kind, of in queue.per_type.items()}
            if self._types is not None:
                per_type = {kind: count for kind, count in per_type.items() if kind in self._types}
            return self._books.stats(queue, on_the_way=self._on_the_way(queue), per_type=per_type)

    def __reduce__(self) -> NoReturn:
        refuse(self, "its items and books belong to this process", "its settings, and make a worker where it is used")

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside -----------------------------------------------------------------------------------

    def _on_the_way(self, queue: BatchQueueStats | None) -> int:
        """Count the items that the queue accepted and has not handed to this worker. Called with the lock."""
        if queue is None or self._ended:
            return 0
        if self._types is None:
            return max(0, queue.accepted - self._arrived)
        return max(0, self._types.waiting(queue) - self._in_handler)

    def _begin_to_close(self) -> bool:
        with self._lock:
            first, self._closed = not self._closed, True
        return first

    def _close_once(self, timeout: float | None) -> bool:
        if self._begin_to_close():
            deadline = _deadline(timeout)
            alarm = None
            if timeout is not None:
                margin = _margin(timeout, keeps=self._keeps)
                alarm = SHARED.after(max(0.0, timeout - margin), self._give_up)
            try:
                self._drain(None if timeout is None else timeout - margin / 4)
                self._finish(deadline)
            finally:
                if alarm is not None:
                    alarm.cancel()
        return self._books.count(Outcome.LOST) + self._books.count(Outcome.REFUSED) == 0

    def _finish(self, deadline: float | None) -> None:
        try:
            idle = self._end(deadline)
        finally:
            self._close_books()
        if idle:
            self._release_once()

    def _release_once(self) -> None:
        with self._lock:
            released, self._released = self._released, True
        if not released:
            self._release()

    def _drain(self, timeout: float | None) -> None:
        if self._types is not None:
            self._types.leave(timeout)
        elif self._queue is not None:
            self._queue.shutdown(timeout)

    def _close_books(self) -> None:
        """Count accepted items as lost if the queue will not hand them over."""
        with self._lock:
            unreached = 0 if self._queue is None else self._on_the_way(self._queue.stats())
            self._books.arrive(unreached)
            self._books.move(unreached, Outcome.PENDING, Outcome.LOST)
            self._ended = True
        if unreached:
            log.error("%s: %d queued items are lost: the time of close() ran out", type(self).__name__, unreached)

    def _renew_in_child(self) -> None:
        self._begin()
        self._books.renew()
        if self._types is not None:
            self._types.renew()
        self._forget()

    def _open(self, kind: type) -> BatchQueue | None:
        if self._closed:
            return None
        if (error := self._stopped_by()) is not None:
            self._refuse_while_stopped(error)
        else:
            self._stopped_at = -math.inf
        queue = self._queue
        if queue is not None and (self._types is None or kind in self._types):
            self._put = queue.produce if self._types is None and self._stopped_by() is None else None
            return queue
        with self._opening:
            if self._queue is None:
                config = self._config().replace(consumer=_Handler(self))
                self._queue = BatchQueue(f"drainq-{type(self).__name__}-{next(_numbers)}", config)
            if self._types is not None:
                self._types.add(kind, self, _Handler(self))
            return self._queue

    def _own_item_types(self) -> None:
        """Route the worker's known item classes to it, unless another worker owns them. Ends the constructor."""
        if self._types is not None:
            self.route(*filter(self._types.is_free, self._item_types))

    def _refuse_while_stopped(self, error: Exception) -> None:
        now = time.monotonic()
        with self._lock:
            if self._stopped_at == -math.inf:
                self._stopped_at = now
            if now - self._stopped_at >= CHECK_AGAIN:
                self._stopped_at = now  # one producer may try whether the reason is gone
                return
        raise_wrapped(DeliveryStopped, f"{type(self).__name__} is stopped", error, self._log_values)


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _seconds_until(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _margin(timeout: float, *, keeps: bool) -> float:
    """Return how many seconds of a timeout are reserved for keeping unsent items; the last quarter is for calls that
    hang.

    A worker that ``keeps`` unsent items must write them elsewhere, on a machine that may be busy.
    """
    return min(5.0, 0.5 * timeout) if keeps else min(1.0, 0.25 * timeout)
