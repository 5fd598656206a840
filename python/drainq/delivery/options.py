"""Worker options: the settings that all workers, exporters and the remote client share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from drainq._native import BatchQueue
from drainq.arguments import Seconds, check_clock_if_given, flag, helpful, refuse_unknown, seconds, whole
from drainq.callables import check_callable
from drainq.clock import Clock
from drainq.delivery.dead_letter_offer import DelayedQueueLike, check_delayed
from drainq.delivery.delivery import RETRY_FOR
from drainq.size_policies import BufferStrategy

OnError = Callable[[list[Any], BaseException], object]
Strategy = BufferStrategy | Literal["blocking", "if_possible"]


@dataclass(frozen=True)
class WorkerOptions:
    """The settings that all workers, exporters and the remote client share.

    Every worker takes them as ``options=``, and each field as a keyword, too. A keyword wins over ``options``.

    Args:
        name: the worker's name in log lines, thread names and metrics. Workers of one name that share a delayed
            queue also send each other's messages again. None: the class and its table, topic or address, such as
            ``"batch-writer/visits"``.
        buffer_size: items that the worker's queue holds at most; None: 10,000.
        strategy: what ``produce`` does while the queue is full: ``"blocking"`` waits, ``"if_possible"`` returns False
            at once. None: it waits.
        linger: seconds for which an idle worker lets items gather before it takes the first; None: 0.
        max_batch: the most items that one call sends or merges; None: 8,192.
        max_batch_bytes: about the most bytes in the worker's queue, and in a sent batch, as Python counts them; a
            single item may be larger. Memory holds at most twice as many, and a driver's copy of a batch. A worker that
            holds items between flushes flushes when it holds more; a :class:`TopN` does not. With a bound, the queue's
            own counters do not count items, but shares of the bound. None: no bound.
        retry_for: seconds to wait out an outage, or the silence, of the other side. Meanwhile the queue fills, and the
            log says so once a minute. Then items are given up. A database has at least a second to answer, and up
            to 10 seconds for each later batch of an outage longer than that. 0: no second try. ``MetricsAggregator``
            and ``TopN`` keep all unsent items until ``close``.
        delayed: a :class:`drainq.delayed.DelayedQueue` for given-up items; no other code may use it. Its codec must
            encode dicts, as the default one does. Its messages are sent again every few seconds and at each ``flush``.
            None: items that the other side refuses count as ``refused``, those given up after an outage as ``lost``.
        on_error: a callable ``(items, error)`` for items that are refused or lost, in the form in which they are sent,
            such as a merged row. For queued and held items that ``close`` gives up it gets an empty list, and an error
            that says how many there are. None: the losses are logged.
        clock: decides when an outage or a flush interval is over; None: the machine's.
        log_values: show items and whole texts of errors in log lines and errors. By default these show types, codes and
            names.
    Raises:
        TypeError, ValueError: with the name of the field and the value; for ``linger`` and ``strategy`` when a worker
            is made with them.

    Example:
        >>> options = WorkerOptions(buffer_size=1_000, strategy="if_possible", retry_for=5.0)
        >>> options.buffer_size, options.log_values
        (1000, False)
    """

    name: str | None = None
    buffer_size: int | None = None
    strategy: Strategy | None = None
    linger: Seconds | None = None
    max_batch: int | None = None
    max_batch_bytes: int | None = None
    retry_for: Seconds = RETRY_FOR
    delayed: DelayedQueueLike | None = None
    on_error: OnError | None = None
    clock: Clock | None = None
    log_values: bool = False

    def __post_init__(self) -> None:
        if self.name is not None and (not isinstance(self.name, str) or not self.name or "\0" in self.name):
            raise TypeError(f"name must be a str that is not empty, without NUL, or None, got {self.name!r}")
        for field in ("buffer_size", "max_batch", "max_batch_bytes"):
            if (value := getattr(self, field)) is not None:
                object.__setattr__(self, field, whole(field, value, least=1))
        object.__setattr__(self, "retry_for", seconds("retry_for", self.retry_for))
        check_delayed(self.delayed)
        if self.on_error is not None:
            check_callable("on_error", self.on_error, "items", "error")
        check_clock_if_given(self.clock)
        flag("log_values", self.log_values)

    @property
    def patience(self) -> float:
        """The seconds of ``retry_for``."""
        return seconds("retry_for", self.retry_for)

    def of_queue(self) -> dict[str, Any]:
        """Return the settings of the worker's own batch queue."""
        given = {name: getattr(self, name) for name in ("buffer_size", "strategy", "linger", "max_batch")}
        return {name: value for name, value in given.items() if value is not None}


WorkerOptions.__init__ = helpful(WorkerOptions.__init__)  # type: ignore[method-assign]


class WorkerSettings(TypedDict, total=False):
    """The keywords of workers that hold items until their sink takes them."""

    queue: BatchQueue[Any] | None
    weight: float
    options: WorkerOptions | None
    name: str | None
    buffer_size: int | None
    strategy: Strategy | None
    linger: Seconds | None
    max_batch: int | None
    max_batch_bytes: int | None
    on_error: OnError | None
    clock: Clock | None
    log_values: bool


class SendingSettings(WorkerSettings, total=False):
    """The keywords of workers that give items up after an outage."""

    retry_for: Seconds
    delayed: DelayedQueueLike | None


def options_of(worker: object, settings: SendingSettings) -> WorkerOptions:
    """Return a worker's options with the fields that are given as keywords.

    Raises:
        TypeError: ``options`` is no :class:`WorkerOptions`, or a field is unknown.
    """
    options = settings.get("options")
    if not (options is None or isinstance(options, WorkerOptions)):
        raise TypeError(f"options must be drainq.workers.WorkerOptions(...), or None, got {options!r}")
    fields: Any = {name: value for name, value in settings.items() if name not in ("queue", "weight", "options")}
    refuse_unknown(type(worker).__name__, fields, [field.name for field in dataclasses.fields(WorkerOptions)])
    return dataclasses.replace(options or WorkerOptions(), **fields)
