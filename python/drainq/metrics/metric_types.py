"""The types of metrics, each with its table.

An item of a task's queue holds *columns*: the records of a piece of a log, as one type. All types of a piece share the
same columns. One object per record and type would cost ten times the parsing.

1. A metric declares its keys and aggregates. :class:`drainq.columns.GroupBy` does the arithmetic, in tasks and when
   partial results are merged.
2. Times are epoch seconds, rounded down to the type's period. Names are the logged bytes, and become text when they
   leave the task (:mod:`drainq.metrics.storable_text`).
3. ``len(metric)`` is its number of log records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:  # modules that need Arrow are imported late: the command starts Java first
    import pyarrow as pa

    from drainq.columns import GroupBy

PERIODS = {"minute": 60, "hour": 3600, "day": 86400}
RELATIVE_ERROR = 0.01  # of the percentiles
_FUNCTIONS: dict[str, Any] = {
    "requests": "count",
    "bytes": "sum",
    "errors": "sum",
    "latency": ("milliseconds", "sketch"),
}


class JobMetric:
    """The records of a piece of a log, for one type.

    Args:
        columns: the keys, and the inputs of the aggregates; texts are binary.
    """

    table: ClassVar[str]
    names: ClassVar[tuple[str, ...]] = ()
    """The keys before the period: texts, or the HTTP status, a number."""
    period: ClassVar[str] = "minute"
    """The last key: the period to which times are rounded down."""
    aggregates: ClassVar[tuple[str, ...]] = ("requests",)
    """Columns that can be summed; ``latency`` is a sketch."""

    __slots__ = ("columns",)

    def __init__(self, columns: pa.RecordBatch) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns)

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """Return the key columns, of the metric and of its table."""
        return (*cls.names, cls.period)

    @classmethod
    def groups(cls, *, only: Sequence[str] | None = None, more: Mapping[str, str] | None = None) -> GroupBy:
        """Return an empty aggregation of this type: all aggregates or ``only`` some, and ``more``."""
        from drainq.columns import GroupBy

        aggregates = {name: _FUNCTIONS[name] for name in only or cls.aggregates}
        return GroupBy(cls.keys(), {**aggregates, **(more or {})}, relative_accuracy=RELATIVE_ERROR)


class ServiceMinute(JobMetric):
    """The whole server, by minute."""

    table = "service_minute"
    aggregates = ("requests", "bytes", "errors", "latency")


class EndpointMinute(JobMetric):
    """One path, by minute."""

    table = "endpoint_minute"
    names = ("endpoint",)
    aggregates = ("requests", "bytes", "errors", "latency")


class StatusMinute(JobMetric):
    """One HTTP status, by minute."""

    table = "status_minute"
    names = ("status",)


class ClientHour(JobMetric):
    """One client address, by hour."""

    table = "client_hour"
    names = ("client",)
    period = "hour"
    aggregates = ("requests", "bytes", "errors")


class UserAgentDay(JobMetric):
    """One user agent, by day."""

    table = "user_agent_day"
    names = ("user_agent",)
    period = "day"


class ReferrerDay(JobMetric):
    """One referrer, by day."""

    table = "referrer_day"
    names = ("referrer",)
    period = "day"


METRICS: tuple[type[JobMetric], ...] = (
    ServiceMinute, EndpointMinute, StatusMinute, ClientHour, UserAgentDay, ReferrerDay,
)  # fmt: skip


class LinesRead:
    """The number of lines of a block that were read, and of those that became records.

    Args:
        source: the log's number. block: where in the log the block begins, in bytes. directives: directive lines.
    """

    __slots__ = ("block", "directives", "lines", "parsed", "source")

    def __init__(self, source: int, block: int, lines: int, parsed: int, directives: int = 0) -> None:
        self.source, self.block, self.lines, self.parsed, self.directives = source, block, lines, parsed, directives


class BadLines:
    """Lines of a block that are not log records.

    Args:
        source: the log's number. block: where in the log the block begins, in bytes.
        before: the number of lines of the block before this piece.
        lines: the place in the piece, the line, and the reason.
    """

    __slots__ = ("before", "block", "lines", "source")

    def __init__(self, source: int, block: int, before: int, lines: list[tuple[int, bytes, str]]) -> None:
        self.source, self.block, self.before, self.lines = source, block, before, lines

    def __len__(self) -> int:
        return len(self.lines)


def records_of(item: JobMetric | LinesRead | BadLines) -> int:
    """Return the weight of an item in a queue: its number of records or bad lines; 1 for ``LinesRead``."""
    return 1 if isinstance(item, LinesRead) else len(item)
