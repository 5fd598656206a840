"""L2: the load. Writes the merged groups into the database, in one transaction, once for each source.

1. The rows of a load and its ``sources`` rows are one transaction: a load is complete or absent.
2. That transaction excludes other loads and looks up sources by content, so no source is counted twice.
3. Rows are inserted into an empty table in the order of its key; in PostgreSQL they are copied and indexed afterwards.
   In a table with rows, the upsert statement adds numbers up, and sketches are merged with the stored ones.
4. Percentiles come from the merged sketches. Ranks are computed from the tables after the load.
5. If a handler fails, the load fails with its error and nothing is written.

Source: ``MetricsPersistentWorker`` in SkyWalking, whose L2 merges the results of L1 with the stored rows.
"""

from __future__ import annotations

import datetime
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drainq._native import BatchQueue
from drainq.batch_config import BatchQueueConfig
from drainq.columns import percentiles
from drainq.metrics.arrays import as_array, of_integers
from drainq.metrics.errors import UserError
from drainq.metrics.handlers import MOST_BAD, Spooled
from drainq.metrics.log_files import loaded_before
from drainq.metrics.metric_types import METRICS, JobMetric, ServiceMinute
from drainq.metrics.outcome import LogCounts
from drainq.metrics.partials import MOST_ROWS, batches, slices
from drainq.metrics.tables import (
    BAD_LINES,
    BAD_REASONS,
    METRIC_TABLES,
    PERCENTILE_COLUMNS,
    PERCENTS,
    SOURCES,
    TOP_ENDPOINTS,
    JobTable,
)
from drainq.sql import Database, Upsert
from drainq.statistics import BatchQueueStats
from drainq.workers.topn import TopN

ROWS_A_BATCH = 10_000  # rows in one item of the queue
QUEUED = MOST_ROWS  # the most rows that wait: one slice, so that the next slice is merged while this one is written


@dataclass
class Load:
    """The input and the counts of one load.

    Args:
        files: the tasks' files by table.
        lines_before: (source, begin) of a block -> the number of lines before it.
        sources: the logs that were read, by number. The load finds their first bad lines. A log without a digest is a
            part of a followed file, and is not entered as loaded.
        also: called inside the transaction, after the rows. An exception rolls everything back.
        written: the rows written, by table; set by the load.
        requests: the requests of the merged ``service_minute`` groups; set by the load.
    """

    files: Mapping[str, Sequence[Spooled]]
    lines_before: Mapping[tuple[int, int], int]
    sources: Sequence[LogCounts]
    also: Callable[[], None] | None = None
    written: Counter[str] = field(default_factory=Counter)
    requests: int = 0


def write(database: Database, load: Load, *, top: int | None) -> BatchQueueStats:
    """Write a load, and set its ``written`` and ``requests``.

    Args:
        top: how many endpoints to rank; None keeps the ranks.
    Returns:
        The counters of the queue that the rows went through.
    Raises:
        UserError: another run loaded one of the sources meanwhile.
        sqlite3.Error, psycopg.Error: the database refused; nothing was written.
    """
    with database.transaction():
        database.dialect.lock_table(database.connection, SOURCES.name)
        whole = [source for source in load.sources if source.sha256]
        taken = loaded_before(database, [source.sha256 for source in whole])
        if taken:
            paths = ", ".join(repr(source.path) for source in load.sources if source.sha256 in taken)
            raise UserError(
                f"{paths} was loaded by another run while this one read it; nothing was loaded: run the command again"
            )
        stats = _write_rows(database, load)
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        rows = [(s.sha256, s.path, s.lines, s.parsed, s.bad, now) for s in whole]
        reasons = [(s.path, reason, count) for s in load.sources for reason, count in s.reasons.items()]
        load.written[BAD_REASONS.name] = BAD_REASONS.upsert(first=False).write(database, reasons)
        load.written[SOURCES.name] = Upsert(SOURCES.name, SOURCES.names).write(database, rows)
        if load.also is not None:
            load.also()
        if top is not None:
            load.written[TOP_ENDPOINTS.name] = rank(database, top)
    return stats


class _Rows:
    """An item of the queue: rows of a table, as columns in the table's order."""

    def __init__(self, table: JobTable, columns: pa.Table) -> None:
        self.table, self.columns = table, columns

    def __len__(self) -> int:
        return len(self.columns)


class _Write:
    """Writes the rows of any table. One drain thread at a time calls it."""

    def __init__(self, database: Database, upserts: Mapping[str, Upsert], written: Counter[str]) -> None:
        self._database, self._upserts, self._written = database, upserts, written

    def consume(self, batch: list[_Rows]) -> None:
        for rows in batch:
            tuples = list(zip(*(column.to_pylist() for column in rows.columns.columns)))
            self._written[rows.table.name] += self._upserts[rows.table.name].write(self._database, tuples)


def _write_rows(database: Database, load: Load) -> BatchQueueStats:
    """Send the rows through a batch queue into the open transaction. One thread prepares them, one writes."""
    first = {metric for metric in METRICS if not _has_rows(database, metric.table)}
    upserts = {metric.table: METRIC_TABLES[metric].upsert(first=metric in first) for metric in METRICS}
    upserts[BAD_LINES.name] = Upsert(BAD_LINES.name, BAD_LINES.names)
    failures: list[BaseException] = []
    config = BatchQueueConfig(
        threads=1,  # one connection, one transaction
        partitions=1,
        buffer_size=QUEUED,
        len_of=len,
        strategy="blocking",
        on_error=lambda batch, error: failures.append(error),
    )
    with BatchQueue("drainq-metrics-l2", config) as queue:
        queue.add_handler(_Rows, _Write(database, upserts, load.written))

        def put(table: JobTable, rows: pa.Table) -> None:
            for start in range(0, len(rows), ROWS_A_BATCH):
                if not failures:
                    queue.produce(_Rows(table, rows.slice(start, ROWS_A_BATCH)))

        for metric in METRICS:
            table, files = METRIC_TABLES[metric], load.files.get(metric.table, ())
            if not files:
                continue
            copied = metric in first and database.dialect.is_server
            if copied:
                queue.flush()  # one thread at a time may use the connection
                database.execute(table.drop_key(database.dialect))
            for groups in slices(metric, files):
                if metric is ServiceMinute:
                    load.requests = sum(groups["requests"].to_pylist())
                if metric not in first and "latency" in metric.aggregates:
                    queue.flush()
                    groups = _with_stored(database, metric, groups)
                put(table, _as_rows(table, groups))
            if copied:
                queue.flush()
                if not failures:
                    database.execute(table.add_key(database.dialect))
        for rows in _bad_lines(load):
            put(BAD_LINES, rows)
    if failures:
        raise failures[0]
    return queue.stats()


def _has_rows(database: Database, table: str) -> bool:
    return bool(database.execute(f"SELECT 1 FROM {database.dialect.quote(table)} LIMIT 1"))


def _as_rows(table: JobTable, groups: pa.Table) -> pa.Table:
    """Return the table's columns, with percentiles. The sketch is null if no request had a time."""
    columns = {name: groups[name] for name in groups.column_names}
    if "latency" in columns:
        found = percentiles(columns["latency"], PERCENTS)
        columns.update(zip(PERCENTILE_COLUMNS, found.columns))
        if found.column(0).null_count:
            nothing = pa.nulls(len(groups), pa.binary())
            columns["latency"] = pc.if_else(found.column(0).is_valid(), columns["latency"], nothing)
    return pa.table({name: columns[name] for name in table.names})


def _with_stored(database: Database, metric: type[JobMetric], groups: pa.Table) -> pa.Table:
    """Merge the stored sketches into the sketches of the groups. Return the groups."""
    quote, mark = database.dialect.quote, database.dialect.placeholder
    keys = list(metric.keys())
    wanted = metric.groups(only=("latency",), more={"place": "min"})
    wanted.merge(groups.append_column("place", of_integers(np.arange(len(groups)))))
    ends = [(min(values), max(values)) for values in (groups[key].to_pylist() for key in keys)]
    collation = database.dialect.byte_order
    stored = database.stream(
        f"SELECT {', '.join(map(quote, keys))}, latency FROM {quote(metric.table)} WHERE latency IS NOT NULL AND "
        + " AND ".join(f"{quote(key)}{collation} BETWEEN {mark} AND {mark}" for key in keys),
        [end for pair in ends for end in pair],
    )
    schema = groups.select([*keys, "latency"]).schema.append(pa.field("place", pa.int64()))
    while rows := list(itertools.islice(stored, ROWS_A_BATCH)):
        columns = [pa.array(column, field.type) for column, field in zip(zip(*rows), schema)]
        wanted.merge(pa.RecordBatch.from_arrays([*columns, pa.nulls(len(rows), pa.int64())], schema=schema))
    merged = wanted.take()
    in_place = pc.sort_indices(merged["place"])  # stored rows that match no group have no place, and come last
    merged = merged.take(in_place).slice(0, len(groups))
    latency = pa.chunked_array([merged["latency"]])
    return groups.set_column(groups.column_names.index("latency"), "latency", latency)


def _bad_lines(load: Load) -> Iterator[pa.Table]:
    """Yield the first bad lines of each log, with the log's path and the line numbers."""
    room = [MOST_BAD - log.bad_before for log in load.sources]
    for batch in batches(load.files.get(BAD_LINES.name, ())):
        rows = []
        for source, block, number, line, reason in zip(*(column.to_pylist() for column in batch.columns)):
            log, number = load.sources[source], load.lines_before[source, block] + number
            if log.first_bad is None:  # bad lines arrive in the order of the log
                log.first_bad = number, reason, line
            if room[source] > 0:
                rows.append((log.path, number, line, reason))
                room[source] -= 1
        yield pa.table(dict(zip(BAD_LINES.names, map(as_array, zip(*rows)))))


def endpoints_by_requests(database: Database) -> Iterator[tuple[str, int, int]]:
    """Stream (endpoint, requests, bytes) of every endpoint, ordered by the bytes of its name."""
    collation = database.dialect.byte_order
    return database.stream(
        "SELECT endpoint, CAST(SUM(requests) AS BIGINT), CAST(SUM(bytes) AS BIGINT) FROM endpoint_minute "
        f"GROUP BY endpoint ORDER BY endpoint{collation}"
    )


def rank(database: Database, top: int) -> int:
    """Store the ``top`` endpoints by requests, then by name, with a bounded heap. Call this inside a transaction."""
    ranked: list[tuple[str, int, int]] = []
    best = TopN(top, score=lambda row: row[1], sink=ranked.extend)
    stream = endpoints_by_requests(database)
    while chunk := list(itertools.islice(stream, ROWS_A_BATCH)):
        best(chunk)
    best.flush()
    database.execute(f"DELETE FROM {database.dialect.quote(TOP_ENDPOINTS.name)}")
    rows = [(rank, *row) for rank, row in enumerate(ranked, start=1)]
    return Upsert(TOP_ENDPOINTS.name, TOP_ENDPOINTS.names).write(database, rows)
