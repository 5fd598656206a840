"""L2: merged rows into the database, in one transaction, once for each source.

1. The rows of a load and the ``sources`` rows that say so are one transaction: a load is there whole or not at all.
2. Sources are looked up by content inside that transaction, which holds off every other load: none is counted twice.
3. Counts are added by the upsert statement; percentiles and ranks are made anew from what is then stored.
4. A handler that fails fails the load: nothing is written, and its error is what the caller sees.

Source: ``MetricsPersistentWorker`` in SkyWalking: L2 merges what L1 sent with what is stored.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from drainq._native import BatchQueue, BatchQueueConfig, BatchQueueStats, BufferStrategy, PartitionPolicy, ThreadPolicy
from drainq.metrics.errors import UserError
from drainq.metrics.outcome import LogCounts
from drainq.metrics.sketch import percentiles
from drainq.metrics.tables import (
    BAD_LINES,
    METRIC_TABLES,
    PERCENTILE_COLUMNS,
    SOURCES,
    TOP_ENDPOINTS,
    metric_upsert,
)
from drainq.metrics.types import (
    DAY,
    METRICS,
    BadLine,
    EndpointMinute,
    JobMetric,
    LatencyMinute,
    ServiceMinute,
    records_of,
)
from drainq.sql import Database, Dialect, Upsert
from drainq.workers.topn import TopN

ROWS_A_BATCH = 10_000  # rows in one item of the queue
MINUTES_AT_ONCE = 200  # minutes whose percentiles are worked out together


@dataclass
class Load:
    """What one load writes.

    Args:
        metrics: merged rows by type; ``name`` is text.
        bad_lines: the bad lines, and ``line_number`` maps one to its place in its file.
        sources: those that were read, by number.
    """

    metrics: dict[type[JobMetric], pa.Table]
    bad_lines: Sequence[BadLine]
    line_number: Callable[[BadLine], int]
    sources: Sequence[LogCounts]
    written: dict[str, int] = field(default_factory=dict)


def loaded_before(database: Database, digests: Sequence[str]) -> set[str]:
    """Which of these contents are in the database."""
    quote, mark = database.dialect.quote, database.dialect.placeholder
    statement = f"SELECT {quote('sha256')} FROM {quote(SOURCES.name)} WHERE {quote('sha256')} = {mark}"
    return {digest for digest in digests if database.execute(statement, (digest,))}


def write(database: Database, load: Load, *, top: int) -> BatchQueueStats:
    """Write a load; ``load.written`` has the rows by table afterwards.

    Args:
        top: how many endpoints to rank.
    Returns:
        The counters of the queue that the rows went through.
    Raises:
        UserError: another run loaded one of the sources meanwhile.
        DatabaseError: the database refused; nothing was written.
    """
    with database.transaction():
        if database.dialect is Dialect.POSTGRESQL:
            database.execute(f"LOCK TABLE {database.dialect.quote(SOURCES.name)} IN EXCLUSIVE MODE")
        taken = loaded_before(database, [source.sha256 for source in load.sources])
        if taken:
            paths = ", ".join(repr(source.path) for source in load.sources if source.sha256 in taken)
            raise UserError(
                f"{paths} was loaded by another run while this one read it; nothing was loaded: run the command again"
            )
        stats = _write_rows(database, load)
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        rows = [(s.sha256, s.path, s.lines, s.parsed, s.bad, now) for s in load.sources]
        load.written[SOURCES.name] = Upsert(SOURCES.name, SOURCES.names).write(database, rows)
        _refresh_percentiles(database, load.metrics.get(LatencyMinute))
        load.written[TOP_ENDPOINTS.name] = _refresh_top(database, top)
    return stats


class _WriteMetric:
    """Upserts one type's rows; called by one drain thread at a time."""

    def __init__(self, database: Database, metric: type[JobMetric], load: Load) -> None:
        self._database, self._metric, self._load = database, metric, load
        self._upsert = metric_upsert(metric)

    def consume(self, batch: list[JobMetric]) -> None:
        for item in batch:
            columns: list[Iterable[Any]] = []
            for key in self._metric.keys:
                values = item.rows[key].to_pylist()
                columns.append(map(_time_of(self._metric), values) if key == "time" else values)
            columns += [item.rows[column].to_pylist() for column in self._metric.sums]
            written = self._upsert.write(self._database, list(zip(*columns)))
            self._load.written[self._metric.table] = self._load.written.get(self._metric.table, 0) + written


class _WriteBadLines:
    """Inserts bad lines."""

    def __init__(self, database: Database, load: Load) -> None:
        self._database, self._load = database, load

    def consume(self, batch: list[BadLine]) -> None:
        load = self._load
        rows = [(load.sources[bad.source].path, load.line_number(bad), bad.line, bad.reason) for bad in batch]
        written = Upsert(BAD_LINES.name, BAD_LINES.names).write(self._database, rows)
        load.written[BAD_LINES.name] = load.written.get(BAD_LINES.name, 0) + written


def _write_rows(database: Database, load: Load) -> BatchQueueStats:
    """Send the rows through a batch queue, one handler per type, into the open transaction."""
    failures: list[BaseException] = []
    config = BatchQueueConfig(
        threads=ThreadPolicy.fixed(1),  # one connection, one transaction
        partitions=PartitionPolicy.fixed(1),
        buffer_size=4 * ROWS_A_BATCH,
        len_of=records_of,
        strategy=BufferStrategy.BLOCKING,
        error_handler=lambda batch, error: failures.append(error),
    )
    with BatchQueue("drainq-metrics-l2", config) as queue:
        metric: Any
        for metric in METRICS:
            queue.add_handler(metric, _WriteMetric(database, metric, load))
        queue.add_handler(BadLine, _WriteBadLines(database, load))
        for metric, rows in load.metrics.items():
            for start in range(0, len(rows), ROWS_A_BATCH):
                chunk = rows.slice(start, ROWS_A_BATCH)
                queue.produce(metric(chunk, len(chunk)))
                if failures:
                    break
        queue.produce_many(list(load.bad_lines))
    if failures:
        raise failures[0]
    return queue.stats()


def iso(second: int, period: int) -> str:
    """A period's beginning as ISO 8601, UTC: ``2015-05-17T10:05:00Z``, or ``2015-05-17`` for a day.

    Example:
        >>> iso(0, 60), iso(86400, 86400)
        ('1970-01-01T00:00:00Z', '1970-01-02')
    """
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=second)
    return moment.date().isoformat() if period == DAY else f"{moment.isoformat(timespec='seconds')}Z"


def _time_of(metric: type[JobMetric]) -> Callable[[int], str]:
    known: dict[int, str] = {}

    def text(second: int) -> str:
        found = known.get(second)
        if found is None:
            found = known[second] = iso(second, metric.period)
        return found

    return text


def _refresh_percentiles(database: Database, latencies: pa.Table | None) -> None:
    """Work out the percentiles of every minute that got request times."""
    if latencies is None or not len(latencies):
        return
    quote, mark = database.dialect.quote, database.dialect.placeholder
    assignments = ", ".join(f"{quote(column)} = {mark}" for column in PERCENTILE_COLUMNS)
    of_endpoint, of_service = METRIC_TABLES[EndpointMinute], METRIC_TABLES[ServiceMinute]
    minutes = sorted({iso(second, LatencyMinute.period) for second in latencies["time"].unique().to_pylist()})
    for start in range(0, len(minutes), MINUTES_AT_ONCE):
        chunk = minutes[start : start + MINUTES_AT_ONCE]
        marks = ", ".join([mark] * len(chunk))
        rows = database.execute(
            f"SELECT endpoint, minute, bucket, requests FROM {quote(LatencyMinute.table)} WHERE minute IN ({marks})",
            chunk,
        )
        for table, places in ((of_endpoint, (0, 1)), (of_service, (1,))):
            sketches: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
            for row in rows:
                sketches.setdefault(tuple([row[place] for place in places]), []).append((row[2], row[3]))
            key = " AND ".join(f"{quote(column)} = {mark}" for column in table.key)
            statement = f"UPDATE {quote(table.name)} SET {assignments} WHERE {key}"
            database.execute_many(statement, [(*percentiles(counts), *names) for names, counts in sketches.items()])


def endpoints_by_requests(database: Database) -> Iterator[tuple[str, int, int]]:
    """(endpoint, requests, bytes) of every endpoint, by name in the order of its bytes."""
    collation = "" if database.dialect is Dialect.SQLITE else ' COLLATE "C"'
    return database.stream(
        "SELECT endpoint, CAST(SUM(requests) AS BIGINT), CAST(SUM(bytes) AS BIGINT) FROM endpoint_minute "
        f"GROUP BY endpoint ORDER BY endpoint{collation}"
    )


def _refresh_top(database: Database, top: int) -> int:
    """Rank all endpoints anew with a bounded heap; of equals the first by name comes first."""
    ranked: list[tuple[str, int, int]] = []
    best = TopN(top, score=lambda row: row[1], sink=ranked.extend)
    stream = endpoints_by_requests(database)
    while chunk := list(itertools.islice(stream, ROWS_A_BATCH)):
        best(chunk)
    best.flush()
    database.execute(f"DELETE FROM {database.dialect.quote(TOP_ENDPOINTS.name)}")
    rows = [(rank, *row) for rank, row in enumerate(ranked, start=1)]
    return Upsert(TOP_ENDPOINTS.name, TOP_ENDPOINTS.names).write(database, rows)
