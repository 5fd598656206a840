"""What every worker does: take items from a queue, hold them, hand them on at a flush, and account for each.

1. ``offered = sent + refused + dead_lettered + lost + pending`` over the items that reached the worker; ``retried``
   counts further tries and is in none of them.
2. A flush that fails keeps what it could not hand on; it is tried again at the next one. Only ``close`` gives up,
   counts it as ``lost`` and says False.
3. State is touched under one lock: by the drain thread, and by the threads that call ``flush`` or ``close``.
4. In a forked child a worker starts empty, its counters at zero; what it held is the parent's to hand on.

Source: SkyWalking's workers; there the shutdown loses what was merged but not flushed. Ours flushes it.
"""

from __future__ import annotations

import abc
import itertools
import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from drainq._native import BatchQueue, BatchQueueConfig, BatchQueueStats, BufferStrategy, ThreadPolicy
from drainq.clock import Clock, SystemClock
from drainq.fork import renew_in_child

log = logging.getLogger("drainq")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class WorkerStats:
    """Items by what became of them.

    Args:
        sent: handed on. retried: handed on in vain and kept, once for each try.
        refused: not taken by the other side for what they are. dead_lettered: given to a delayed queue.
        lost: given up at ``close``. pending: held until the next flush.
        queue: the batch queue's own counters; None before the first ``produce``.
    """

    sent: int
    retried: int
    refused: int
    dead_lettered: int
    lost: int
    pending: int
    queue: BatchQueueStats | None


def check_callable(**arguments: Any) -> None:
    """Refuse, by name, an argument that is neither callable nor None.

    Raises:
        TypeError: there is one.
    """
    for name, value in arguments.items():
        if value is not None and not callable(value):
            raise TypeError(f"{name} must be a callable, got {value!r}")


class Worker(abc.ABC):
    """The base of the workers. A subclass says how to ``_take`` a batch and how to ``_emit`` what is held.

    Args:
        queue: a batch queue to share: the worker registers for the type of each item that is produced through it,
            and a type belongs to one worker. None: it opens a queue of its own at the first ``produce``.
        flush_interval: seconds between flushes, looked at after each batch and when idle; None: only ``flush`` and
            ``close``.
        clock: decides when the interval is over.
    Raises:
        ValueError: ``flush_interval`` is negative.
        TypeError: an argument is of the wrong kind.
    """

    def __init__(
        self, *, queue: BatchQueue | None = None, flush_interval: float | None = None, clock: Clock | None = None
    ) -> None:
        if flush_interval is not None:
            if isinstance(flush_interval, bool) or not isinstance(flush_interval, (int, float)):
                raise TypeError(f"flush_interval must be a number of seconds or None, got {flush_interval!r}")
            if not flush_interval >= 0:
                raise ValueError(f"flush_interval must be at least 0 seconds or None, got {flush_interval!r}")
        if not (queue is None or isinstance(queue, BatchQueue)):
            raise TypeError(f"queue must be a drainq.BatchQueue to share, or None for one of its own, got {queue!r}")
        if not (clock is None or callable(getattr(clock, "now", None))):
            raise TypeError(f"clock must be an object with now() -> float in seconds, got {clock!r}")
        self._clock = SystemClock() if clock is None else clock
        self._interval = flush_interval
        self._flushed_at = self._clock.now()
        self._shared = queue
        self._queue = queue
        self._types: set[type] = set()
        self._closed = False
        self._begin()
        renew_in_child(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._pending = self._sent = self._retried = self._refused = self._dead_lettered = self._lost = 0

    @abc.abstractmethod
    def _take(self, batch: list[Any]) -> None:
        """Take a whole batch into the state, or raise and take nothing; called under the lock."""

    @abc.abstractmethod
    def _emit(self) -> None:
        """Hand on what is held and forget it, or raise and keep it; called under the lock."""

    # -- the handler ------------------------------------------------------------------------------

    def __call__(self, batch: list[Any]) -> None:
        """Take a batch, as a handler does; a worker can be a handler of any batch queue."""
        with self._lock:
            self._take(batch)
            self._pending += len(batch)
            self._flush_if_due()

    consume = __call__

    def on_idle(self) -> None:
        """Flush if the interval is over; the queue calls this when it has nothing else to do."""
        with self._lock:
            self._flush_if_due()

    def on_close(self) -> None:
        """Hand on what is held, and stop; the queue calls this at its end, if ``close`` does not come before.

        So a worker that is dropped, or still open when the interpreter exits, loses nothing.
        """
        self._end()

    # -- the producer's side ----------------------------------------------------------------------

    def produce(self, item: Any) -> bool:
        """Queue one item, waiting for room; False if the queue is closed."""
        return self._open(type(item)).produce(item)

    def produce_many(self, items: Iterable[Any]) -> int:
        """Queue items in order, waiting for room; return how many were accepted."""
        batch = list(items)
        accepted = 0
        for kind, group in itertools.groupby(batch, key=type):
            accepted += self._open(kind).produce_many(list(group))
        return accepted

    def flush(self, timeout: float | None = None) -> bool:
        """Hand on everything accepted so far.

        Args:
            timeout: seconds to wait for what is queued; None: as long as it takes.
        Returns:
            False if time ran out, or it could not be handed on: that is logged, and tried again at the next flush.
        """
        if self._queue is not None and not self._queue.flush(timeout):
            return False
        with self._lock:
            return self._try_emit()

    def close(self, timeout: float | None = None) -> bool:
        """Handle what is queued, hand on what is held, and stop. A shared queue stays open, without this worker.

        Returns:
            False if something was given up; ``stats()`` says how much.
        """
        drained = True
        if self._shared is not None:
            drained = self._shared.flush(timeout)
            for kind in self._types:
                self._shared.remove_handler(kind)
        elif self._queue is not None:
            drained = self._queue.shutdown(timeout)
        return self._end() and drained

    def stats(self) -> WorkerStats:
        """The counters now."""
        with self._lock:
            queue = None if self._queue is None else self._queue.stats()
            counts = (self._sent, self._retried, self._refused, self._dead_lettered, self._lost, self._pending)
            return WorkerStats(*counts, queue)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- for subclasses --------------------------------------------------------------------------

    @abc.abstractmethod
    def _forget(self) -> None:
        """Hold nothing, and leave connections to the parent process; called in a forked child."""

    def _config(self) -> BatchQueueConfig:
        """The settings of a queue of its own."""
        return BatchQueueConfig(threads=ThreadPolicy.fixed(1), strategy=BufferStrategy.BLOCKING, consumer=self)

    def _release(self) -> None:  # noqa: B027
        """Let go of resources; called once, at the end of ``close``."""

    # -- inside -----------------------------------------------------------------------------------

    def _renew_in_child(self) -> None:
        self._begin()
        self._forget()

    def _end(self) -> bool:
        """Hand on what is held, for the last time; False if something was given up, now or before."""
        with self._lock:
            if not self._closed:
                self._closed = True
                if not self._try_emit():
                    self._retried -= self._pending
                    self._lost += self._pending
                    self._pending = 0
                self._release()
            return not self._lost

    def _flush_if_due(self) -> None:
        if self._interval is not None and self._pending and self._clock.now() - self._flushed_at >= self._interval:
            self._try_emit()

    def _try_emit(self) -> bool:
        self._flushed_at = self._clock.now()
        try:
            self._emit()
        except Exception:
            log.exception("%s could not hand on %d items; they are kept", type(self).__name__, self._pending)
            self._retried += self._pending
            return False
        self._sent += self._pending  # what _emit itself refused or dead-lettered is no longer pending
        self._pending = 0
        return True

    def _open(self, kind: type) -> BatchQueue:
        queue = self._queue
        if queue is not None and (self._shared is None or kind in self._types):
            return queue
        with self._opening:
            if self._queue is None:
                self._queue = BatchQueue(f"drainq-{type(self).__name__}-{next(_numbers)}", self._config())
            if self._shared is not None and kind not in self._types:
                self._shared.add_handler(kind, self)
                self._types.add(kind)
            return self._queue
