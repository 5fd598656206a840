"""Worker: the base of all workers: a queue in front, the handler, flush, close and stats.

1. The books (:mod:`drainq.delivery.accounting`) give each item that reached the worker exactly one outcome.
2. ``flush`` and ``close`` return by their deadline, except while items are being put into a delayed queue. With a
   deadline other threads send; without one the calling thread does.
3. A closed worker accepts nothing: ``produce`` returns False, even if the shared queue is open.
4. On a shared queue an item type belongs to one worker. A second worker that asks for the type gets an error.
5. In a forked child a worker starts empty, with counters at zero. The parent keeps the items and sends them.

Source: SkyWalking's workers, whose shutdown loses merged items that were not flushed. drainq flushes them.
"""

from __future__ import annotations

import abc
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from drainq._native import BatchQueue
from drainq.arguments import Seconds, seconds_or_none
from drainq.clock import Clock, SystemClock
from drainq.delivery.accounting import Books, Outcome, WorkerStats
from drainq.delivery.delivery import RETRY_FOR
from drainq.delivery.item_bytes import UNITS, ItemBytes
from drainq.delivery.options import SendingSettings, options_of
from drainq.delivery.producing import Item, Producer
from drainq.delivery.sink_contract import DeliveryError, Refused, raise_wrapped, to_show
from drainq.delivery.type_owners import ItemTypes
from drainq.errors import DrainqError, ShutDown
from drainq.fork import renew_in_child
from drainq.pickling import refuse
from drainq.threads import ClosedByBlock, run_aside, start_thread
from drainq.timer import SHARED

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

log = logging.getLogger("drainq")

Take = Callable[[list[Any]], object]
_Wait = Callable[[Callable[[float], bool], float], bool]
BUFFER_SIZE = 10_000  # items in a batch queue without a setting


class WorkerHandler:
    """The queue's handler: lets a worker tell its queue's calls from a user's."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def consume(self, batch: list[Any]) -> None:
        self._worker._from_queue(batch)

    def on_idle(self) -> None:
        self._worker._when_idle()

    def on_close(self) -> None:
        self._worker.on_close()


class Worker(ClosedByBlock, Producer[Item]):
    """The base of the workers. A subclass defines how to ``_take`` a batch, and how to end.

    Args:
        default_name: the worker's name if the options have none.
        settings: ``queue``, ``weight``, ``options``, and the fields of :class:`WorkerOptions`.
    Raises:
        ValueError, TypeError: an argument is of the wrong kind.
    """

    _item_types: Iterable[type] = ()  # classes of the items that the worker is made for
    _gives_up = True  # whether items are given up after an outage
    _name = ""
    _keeps = False  # whether a delayed queue keeps items that cannot be sent

    def __init__(self, default_name: str, **settings: Unpack[SendingSettings]) -> None:
        queue, weight = settings.get("queue"), settings.get("weight", 1.0)
        self._options = options = options_of(self, settings)
        self._name, self._log_values = options.name or default_name, options.log_values
        self._clock: Clock = options.clock or SystemClock()
        if not self._gives_up and (options.delayed is not None or options.retry_for != RETRY_FOR):
            raise ValueError(
                f"a {type(self).__name__} gives nothing up before close(): leave out retry_for and delayed"
            )
        if not (queue is None or isinstance(queue, BatchQueue)):
            raise TypeError(f"queue must be a drainq.BatchQueue to share, or None for one of its own, got {queue!r}")
        if queue is not None and (own := options.of_queue()):
            raise ValueError(f"a shared queue has settings of its own: leave out {', '.join(own)}, got queue={queue!r}")
        if isinstance(weight, bool) or not isinstance(weight, (int, float)):
            raise TypeError(f"weight must be a number, got {weight!r}")
        if not 0 < weight < math.inf:
            raise ValueError(f"weight must be more than 0 and finite, got {weight!r}")
        self._types = None
        if queue is not None:
            self._queue, self._types = queue, ItemTypes(queue, float(weight))
        bound = options.max_batch_bytes
        self._bytes = None if bound is None else ItemBytes(bound, most=options.buffer_size or BUFFER_SIZE)
        self._books = Books()
        self._closed = False
        self._begin()
        renew_in_child(self)

    def _begin(self) -> None:
        super()._begin()
        self._given_up_before = 0  # refused and lost items at the last flush
        self._released = False
        self._reserve = 0.0  # seconds of ``close`` for calls that hang
        self._closing = threading.Lock()  # held by the thread that closes, which ``_closer`` names
        self._closer: int | None = None

    def _start(self) -> None:
        """Open the queue, or take the free types of a shared one. Called when all else is made."""
        if self._types is not None:
            self.route(*filter(self._types.is_free, self._item_types))
            return
        settings = {"threads": 1, **self._queue_settings(), **self._options.of_queue()}
        if self._bytes is not None:
            settings |= {"len_of": self._bytes.weight, "buffer_size": UNITS}
        if "buffer_size" in settings:
            settings["capacity"] = settings["buffer_size"]  # of all partitions together
        if self._options.on_error is not None:
            settings["on_error"] = _has_been_told
        self._queue = BatchQueue(self._name, consumer=self._handler(), **settings)

    @property
    def name(self) -> str:
        """The worker's name in log lines, thread names and metrics."""
        return self._name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r}>"

    # -- for subclasses ---------------------------------------------------------------------------

    @abc.abstractmethod
    def _take(self, batch: list[Any]) -> None:
        """Take a batch that is counted as pending. Account for each item of it, now or later.

        Raises:
            Exception: some items are refused or lost, and counted as such. The queue counts the batch as failed.
        """

    @abc.abstractmethod
    def _forget(self) -> None:
        """Drop the held items, and leave connections to the parent process. Called in a forked child."""

    def _when_idle(self) -> None:
        """Do pending work, because the queue is idle."""

    def _flush_held(self, deadline: float | None) -> bool:
        """Send the held items by a deadline on the monotonic clock. Return False if that failed."""
        return True

    def _give_up(self) -> None:
        """Cancel all attempts, because the time of ``close`` is nearly over."""

    @abc.abstractmethod
    def _end(self, deadline: float | None) -> bool:
        """Send the held items for the last time, and account for the rest. Called once.

        Returns:
            True if no send is running, so that resources can be released.
        """

    def _release(self) -> None:
        """Release resources. Called once, when no send is running."""

    def _queue_settings(self) -> dict[str, Any]:
        """Return default settings for the worker's own queue. The options override them."""
        return {}

    def _handler(self) -> WorkerHandler:
        return WorkerHandler(self)

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
        """Send the held items, and stop. The queue calls this at its end. After ``close`` it only releases resources.

        A worker that is dropped, or still open when the interpreter exits, therefore loses nothing.
        """
        if not self._closing.acquire(blocking=False):
            return  # the thread that closes does the rest
        try:
            self._closed = True
            if self._ended:
                self._release_once()  # a call of the sink that outlasted ``close`` has returned
            else:
                self._finish(None)
        finally:
            self._closing.release()

    def _from_queue(self, batch: list[Any], take: Take | None = None) -> None:
        count = len(batch)
        with self._lock:
            self._arrived += count
            if self._ended:  # the books were closed before, and count these items as lost
                self._books.move(count, Outcome.LOST, Outcome.PENDING)
            else:
                self._books.arrive(count)
        (take or self._take_for_queue)(batch)

    def _take_for_queue(self, batch: list[Any]) -> None:
        try:
            self._take(batch)
        except DeliveryError:
            raise  # the delivery has reported the losses
        except Exception as error:
            self._tell(batch, error)
            if isinstance(error, DrainqError):
                raise
            raise_wrapped(Refused, f"{self._name}: {len(batch)} items were refused", error, self._log_values)

    def _tell(self, items: Sequence[Any], error: BaseException) -> bool:
        """Call ``on_error`` for items that are refused or lost. Return False if there is none."""
        if self._options.on_error is None:
            return False
        try:
            self._options.on_error(list(items), error)
        except Exception as failure:
            log.error("%s: on_error failed", self._name, exc_info=to_show(failure, values=self._log_values))
        return True

    # -- flush, close, stats ----------------------------------------------------------------------

    def flush(self, timeout: Seconds | None = None) -> bool:
        """Send all items accepted so far, and the due messages of the delayed queue.

        Args:
            timeout: seconds after which it returns, whatever the sink does. None: as long as it takes.
        Returns:
            False if time ran out, if held items could not be sent (the next flush tries them again), or if items were
            refused or lost since the last flush. Items in the delayed queue are no failure.
        """
        timeout = seconds_or_none("timeout", timeout)
        return self._flush_rest(_deadline(timeout), self._queue.flush(timeout))

    def _flush_rest(self, deadline: float | None, done: bool) -> bool:
        done = self._flush_held(deadline) and done
        given_up = self._books.count(Outcome.REFUSED) + self._books.count(Outcome.LOST)
        with self._lock:
            before, self._given_up_before = self._given_up_before, given_up
        return done and given_up <= before

    def close(self, timeout: Seconds | None = None) -> bool:
        """Handle the queued items, send the held ones, and stop. A shared queue stays open, without this worker.

        Args:
            timeout: seconds after which it returns, whatever the sink does. None: as long as it takes. In its last
                quarter (at most a second) running sends are cancelled. With a delayed queue they are cancelled in the
                last half (at most 5 seconds), and the unsent items go to the delayed queue. If that takes longer than
                is left, ``close`` continues until all are kept, or until a second brings no progress.
        Returns:
            False if an item was refused or lost; ``stats()`` counts them.
        """
        return self._close_once(seconds_or_none("timeout", timeout))

    async def flush_async(self, timeout: Seconds | None = None) -> bool:
        """Do what ``flush`` does. No thread waits for the queue; held items are sent on a separate thread."""
        timeout = seconds_or_none("timeout", timeout)
        return await run_aside(self._flush_rest, _deadline(timeout), await self._queue.flush_async(timeout))

    def stats(self) -> WorkerStats:
        """Return the counters."""
        with self._lock:
            queue = self._queue.stats()
            return self._books.stats(queue, on_the_way=self._on_the_way(queue), per_type=self._per_type(queue))

    def __reduce__(self) -> NoReturn:
        refuse(self, "its items and books belong to this process", "its settings, and make a worker where it is used")

    def __enter__(self) -> Self:
        if self._closed:
            raise ShutDown(f"{self._name} is closed")
        return self

    # -- inside -----------------------------------------------------------------------------------

    def _close_once(self, timeout: float | None) -> bool:
        self._closed = True
        if not self._ended and self._closer != threading.get_ident():
            deadline, alarm, margin = _deadline(timeout), None, 0.0
            if timeout is not None:
                margin = _margin(timeout, keeps=self._keeps)
                alarm = SHARED.after(max(0.0, timeout - margin), self._give_up)
            try:
                if self._closing.acquire(blocking=False) or self._wait_for_the_closer(timeout):
                    try:
                        self._closer = threading.get_ident()
                        if not self._ended:
                            self._reserve = margin / 4
                            self._drain(None if deadline is None else deadline - self._reserve)
                            self._finish(deadline)
                    finally:
                        self._closer = None
                        self._closing.release()
            finally:
                if alarm is not None:
                    alarm.cancel()
        return self._ended and self._books.count(Outcome.LOST) + self._books.count(Outcome.REFUSED) == 0

    def _wait_for_the_closer(self, timeout: float | None) -> bool:
        self._queue.flush(0)  # raises WouldDeadlock in a handler of the queue: the closer waits for that handler
        return self._closing.acquire(timeout=-1 if timeout is None else min(timeout, threading.TIMEOUT_MAX))

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

    def _drain(self, deadline: float | None) -> None:
        """Let the queue hand over its items, until a deadline, or longer while items are put into the delayed queue."""
        leave = self._queue.shutdown if self._types is None else self._types.leave
        if deadline is not None and self._keeps:
            self._queue.flush(0)  # in a handler of the queue it raises WouldDeadlock
            self._call_aside(self._queue.shutdown if self._types is None else self._queue.flush, deadline)
        leave(None if deadline is None else max(0.0, deadline - time.monotonic()))

    def _call_aside(self, call: Callable[[], bool], deadline: float, wait: _Wait | None = None) -> bool:
        """Run ``call`` on another thread. Return whether it returned True by the deadline."""
        answer: list[bool] = []
        ended = threading.Event()

        def run() -> None:
            try:
                answer.append(call())
            finally:
                ended.set()

        try:
            start_thread(run, name=f"{self._name}-wait")
        except RuntimeError:  # the interpreter is ending and starts no thread any more
            SHARED.after(0, run)
        (wait or self._wait)(ended.wait, deadline)
        return answer == [True]

    def _wait(self, wait: Callable[[float], bool], deadline: float) -> bool:
        """Wait until a deadline. Return False if it passed first."""
        return wait(max(0.0, deadline - time.monotonic()))

    def _close_books(self) -> None:
        """Count accepted items as lost if the queue will not hand them over."""
        with self._lock:
            unreached = self._on_the_way(self._queue.stats())
            self._books.arrive(unreached)
            self._books.move(unreached, Outcome.PENDING, Outcome.LOST)
            self._ended = True
        self._tell_given_up(unreached)

    def _tell_given_up(self, count: int) -> None:
        """Report the number of lost items, without the items themselves."""
        error = DeliveryError(f"{self._name}: close() gives up {count} items that were not sent")
        if count and not self._tell([], error):
            log.error("%s", error)

    def _renew_in_child(self) -> None:
        self._begin()
        self._books.renew()
        if self._types is not None:
            self._types.renew()
        self._forget()


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _margin(timeout: float, *, keeps: bool) -> float:
    """Return how many seconds before the end of a timeout the running sends are cancelled. The last quarter of these
    seconds is for calls that hang.

    A worker that ``keeps`` unsent items must write them elsewhere, on a machine that may be busy.
    """
    return min(5.0, 0.5 * timeout) if keeps else min(1.0, 0.25 * timeout)


def _has_been_told(batch: list[Any], error: BaseException) -> None:
    """Log nothing, because the worker has called its own ``on_error``."""
