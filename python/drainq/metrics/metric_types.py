"""The typed metrics that records become, each with its table.

What goes through a task's queue are objects that hold *columns*: the records of a piece of a log, one object per type.
All types of a piece share the same columns. An object per record and type would cost ten times the parsing. The queue
tells the objects apart by type, as it would single records.

1. A metric is declared by its keys and aggregates; :class:`drainq.columns.GroupBy` does the arithmetic, in tasks and
   where partial results meet.
2. Times are epoch seconds, cut to the type's period. Names are bytes as they were logged; they become text when they
   leave the task (:mod:`drainq.metrics.names`).
3. ``len(metric)`` is the number of log records it stands for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:  # whatever needs Arrow is imported late: the command starts Java first
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
    """The records of a piece of a log, as one type sees them.

    Args:
        columns: the keys and what the aggregates need; texts are binary.
    """

    table: ClassVar[str]
    names: ClassVar[tuple[str, ...]] = ()
    """Keys that are texts, or a number."""
    period: ClassVar[str] = "minute"
    """The last key: how times are cut."""
    aggregates: ClassVar[tuple[str, ...]] = ("requests",)
    """Columns that add up; ``latency`` is a sketch."""

    __slots__ = ("columns",)

    def __init__(self, columns: pa.RecordBatch) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns)

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """The key columns, of the metric and of its table."""
        return (*cls.names, cls.period)

    @classmethod
    def groups(cls, *, only: Sequence[str] | None = None, more: Mapping[str, str] | None = None) -> GroupBy:
        """Makes what adds its records up, and merges what others added up; ``only`` some of its aggregates."""
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
    """How many lines of a block were read, and how many of them became records.

    Args:
        source: the log's number. block: where in the log the block begins, in bytes.
    """

    __slots__ = ("block", "lines", "parsed", "source")

    def __init__(self, source: int, block: int, lines: int, parsed: int) -> None:
        self.source, self.block, self.lines, self.parsed = source, block, lines, parsed


class BadLines:
    """Lines of a block that are no records.

    Args:
        source: the log's number. block: where in the log the block begins, in bytes.
        before: how many lines of the block come before the piece that these are of.
        lines: for each its place in the piece, itself, and what is wrong with it.
    """

    __slots__ = ("before", "block", "lines", "source")

    def __init__(self, source: int, block: int, before: int, lines: list[tuple[int, bytes, str]]) -> None:
        self.source, self.block, self.before, self.lines = source, block, before, lines

    def __len__(self) -> int:
        return len(self.lines)


def records_of(item: JobMetric | LinesRead | BadLines) -> int:
    """For how many an item counts in a queue: its records or lines, or one."""
    return 1 if isinstance(item, LinesRead) else len(item)
