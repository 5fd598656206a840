"""The typed metrics that records become, each with its table.

An object holds *columns*: a row for each log record, or for each key once rows were merged. One object per type and
Arrow batch, not per record: an object per record and type costs ten times the parsing
(``docs/howto/metrics.md`` has the figures). The queue tells them apart by type, as it would single records.

1. Every type's rows can be merged by key: ``sums`` add up, and nothing else is in a row.
2. Times are epoch seconds, cut to the type's period. Names are bytes as they were logged; they become text
   when they leave the task (:func:`drainq.metrics.partial_rows.text`).
3. ``len(metric)`` is the number of log records it stands for.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

import pyarrow as pa

MINUTE, HOUR, DAY = 60, 3600, 86400


class JobMetric:
    """Rows of one type.

    Args:
        rows: columns ``keys`` and ``sums``; ``name`` is binary, everything else 64-bit integers.
        records: how many log records the rows stand for.
    """

    table: ClassVar[str]
    keys: ClassVar[tuple[str, ...]] = ("name", "time")  # out of name, number, time
    sums: ClassVar[tuple[str, ...]] = ("requests",)  # out of requests, bytes, errors
    columns: ClassVar[Mapping[str, str]]  # key -> the table's column
    period: ClassVar[int] = MINUTE

    __slots__ = ("records", "rows")

    def __init__(self, rows: pa.Table, records: int) -> None:
        self.rows = rows
        self.records = records

    def __len__(self) -> int:
        return self.records


class ServiceMinute(JobMetric):
    """The whole server, by minute."""

    table = "service_minute"
    keys = ("time",)
    sums = ("requests", "bytes", "errors")
    columns = MappingProxyType({"time": "minute"})


class EndpointMinute(JobMetric):
    """One path, by minute."""

    table = "endpoint_minute"
    sums = ("requests", "bytes", "errors")
    columns = MappingProxyType({"name": "endpoint", "time": "minute"})


class StatusMinute(JobMetric):
    """One HTTP status, by minute."""

    table = "status_minute"
    keys = ("number", "time")
    columns = MappingProxyType({"number": "status", "time": "minute"})


class ClientHour(JobMetric):
    """One client address, by hour."""

    table = "client_hour"
    sums = ("requests", "bytes", "errors")
    columns = MappingProxyType({"name": "client", "time": "hour"})
    period = HOUR


class UserAgentDay(JobMetric):
    """One user agent, by day."""

    table = "user_agent_day"
    columns = MappingProxyType({"name": "user_agent", "time": "day"})
    period = DAY


class ReferrerDay(JobMetric):
    """One referrer, by day."""

    table = "referrer_day"
    columns = MappingProxyType({"name": "referrer", "time": "day"})
    period = DAY


class LatencyMinute(JobMetric):
    """How many requests of a path took how long, by minute: a percentile sketch as rows, one per bucket."""

    table = "latency_minute"
    keys = ("name", "number", "time")
    columns = MappingProxyType({"name": "endpoint", "number": "bucket", "time": "minute"})


METRICS: tuple[type[JobMetric], ...] = (
    ServiceMinute, EndpointMinute, StatusMinute, ClientHour, UserAgentDay, ReferrerDay, LatencyMinute,
)  # fmt: skip


def records_of(item: JobMetric | LinesRead | BadLine) -> int:
    """For how many log records an item counts in a queue: its own, or one."""
    return item.records if isinstance(item, JobMetric) else 1


class LinesRead:
    """How many lines of a file's block a batch had, and how many of them were records."""

    __slots__ = ("block", "lines", "parsed", "source")

    def __init__(self, source: int, block: int, lines: int, parsed: int) -> None:
        self.source, self.block, self.lines, self.parsed = source, block, lines, parsed


class BadLine:
    """A line that is no record.

    Args:
        source: the file's number. block: where in the file the block begins, in bytes.
        number: which line of the block it is, from 1. line: as it stood there. reason: what is wrong with it.
    """

    __slots__ = ("block", "line", "number", "reason", "source")

    def __init__(self, source: int, block: int, number: int, line: bytes, reason: str) -> None:
        self.source, self.block, self.number, self.line, self.reason = source, block, number, line, reason
