"""The job: logs in, tables, report and a reconciled summary out.

    find logs -> digests (while Spark starts) -> read, parse, L1 in tasks -> merge in Spark -> L2 into SQL -> report

1. ``lines = parsed + bad`` is checked on three numbers of different origin: lines counted as they were read, requests
   summed over merged ``service_minute`` rows, and bad lines that arrived.
2. Each task's queue counters leave it as rows, so the accounting identity is summed over the attempts that counted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from drainq.metrics import load, partial_rows, tables
from drainq.metrics.errors import Interrupted, JobFailed, UserError, was_interrupted
from drainq.metrics.log_files import Digests, Source, find, link
from drainq.metrics.outcome import JobOutcome, LogCounts, Stage
from drainq.metrics.progress import Progress
from drainq.metrics.report import write_report
from drainq.metrics.session import DEFAULT_MASTER, open_session, tasks_done
from drainq.metrics.spark_job import Door, counters, read
from drainq.metrics.types import METRICS, BadLine, JobMetric, ServiceMinute
from drainq.sql import Database, DatabaseError, DatabaseUrl
from drainq.sql.errors import one_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_OUT = "drainq-out"
DEFAULT_TOP = 10
PATIENCE = 1.0  # seconds to wait for the digests before Spark is started beside them; it may not be needed
GZIP_RATIO = 10  # bytes of log in a byte of gzip, about


def run(
    logs: Sequence[str],
    *,
    database: DatabaseUrl | None = None,
    out: str | Path = DEFAULT_OUT,
    master: str = DEFAULT_MASTER,
    door: Door = Door.ARROW,
    top: int = DEFAULT_TOP,
    progress: Progress | None = None,
    spark: SparkSession | None = None,
) -> JobOutcome:
    """Load access logs into service metrics.

    Args:
        logs: paths of logs, plain or gzip.
        database: where the tables go; None: ``metrics.db`` in ``out``.
        out: a directory for the report and Spark's log; made if it is not there.
        master: Spark's master.
        door: ``Door.ARROW`` (``mapInArrow``) or ``Door.RDD`` (``rdd.mapPartitions``).
        top: how many endpoints to rank.
        progress: is called as each stage begins and ends; None: no call.
        spark: a session to use; None: one is started and stopped.
    Raises:
        UserError, DatabaseError: something that the message says how to put right; nothing was loaded.
    """
    if top < 1:
        raise UserError(f"--top must be at least 1, got {top}")
    progress = progress or Progress(None)
    sources = [find(number, path) for number, path in enumerate(logs)]
    unit = "log" if len(sources) == 1 else "logs"
    directory = Path(out)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot make the directory {str(directory)!r} ({error.strerror}); name another with --out"
        ) from error
    url = database or DatabaseUrl.sqlite(directory / "metrics.db")
    clock = _StageClock(progress)
    with _open(url) as connected:
        digests = Digests(sources)
        with contextlib.ExitStack() as stack:
            stack.callback(digests.close)
            with clock.stage("digest", len(sources), unit):
                found = digests.result(timeout=PATIENCE)
            if spark is None and _worth_reading(connected, sources, found):
                size = sum(source.size * (GZIP_RATIO if source.compressed else 1) for source in sources)
                with clock.stage("start Spark", 1, "session"):
                    spark = stack.enter_context(open_session(master, directory / "spark.log", size=size))
            if found is None:
                with clock.stage("digest, the rest", len(sources), unit):
                    found = digests.result()
            outcome = JobOutcome(
                [LogCounts(source.path, digest) for source, digest in zip(sources, found)], stages=clock.stages
            )
            fresh = _mark_loaded(connected, outcome.sources)
            if fresh:
                counts = [outcome.sources[place] for place in fresh]
                new = [dataclasses.replace(sources[place], number=number) for number, place in enumerate(fresh)]
                loading = load.Load({}, [], lambda bad: bad.number, counts)
                if spark is not None and any(source.size for source in new):
                    shared = (
                        None if master.startswith("local") else directory.absolute()
                    )  # executors elsewhere must see it
                    with clock.stage(
                        "read and aggregate (L1)", 0, "lines", tasks=functools.partial(tasks_done, spark)
                    ) as stage:
                        loading = _fill(loading, outcome, _read(spark, new, door, shared))
                        stage.items = outcome.lines
                with clock.stage("load (L2)", 0, "rows") as stage:
                    _write(connected, loading, outcome, top)
                    stage.items = sum(loading.written.values())
        outcome.top = _top(connected)
        with clock.stage("report", 1, "page"):
            write_report(connected, directory / "report.html", outcome)
    return outcome


def _read(spark: SparkSession, sources: list[Source], door: Door, shared: Path | None) -> pa.Table:
    """Read the sources and merge what the tasks made of them."""
    with tempfile.TemporaryDirectory(prefix="drainq-logs-", dir=shared) as links:
        link(sources, Path(links))
        try:
            merged = read(spark, Path(links).as_uri(), door)
        except (Exception, KeyboardInterrupt) as error:  # whatever Java, Py4J or a task raised
            if was_interrupted(error):
                raise Interrupted("interrupted; nothing was loaded") from None
            for source in sources:  # a changed log is the likeliest reason, so it is checked first
                source.check_unchanged()
            raise JobFailed(f"the Spark job failed, and nothing was loaded: {_reason(error)}") from error
    for source in sources:
        source.check_unchanged()
    return merged


def _reason(error: BaseException) -> str:
    """The one line of a Java or Python stack that says what happened."""
    lines = [line.strip() for line in str(error).splitlines()]
    said = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Invalid|Exit|Interrupt)\b", line)]
    return (said or lines or [type(error).__name__])[0][:500]


def _write(database: Database, loading: load.Load, outcome: JobOutcome, top: int) -> None:
    try:
        outcome.l2 = counters(load.write(database, loading, top=top))
    except database.errors as error:
        raise DatabaseError(f"{database.url} refused the load, nothing was written: {one_line(error)}") from error
    outcome.written = loading.written


def _fill(loading: load.Load, outcome: JobOutcome, merged: pa.Table) -> load.Load:
    """Take the merged rows apart; count lines by source."""
    counts = loading.sources
    by_kind = {kind: merged.filter(pc.equal(merged["kind"], kind)) for kind in pc.unique(merged["kind"]).to_pylist()}
    empty = merged.slice(0, 0)

    def rows(kind: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        return zip(*(by_kind.get(kind, empty)[column].to_pylist() for column in columns))

    before: dict[tuple[int, int], int] = {}
    for source, block, lines in sorted(rows(partial_rows.LINES_READ, "source", "number", "requests")):
        before[source, block] = counts[source].lines  # lines of the blocks in front of this one
        counts[source].lines += lines
    bad_lines = [
        BadLine(source, block, number, line, reason)
        for source, block, number, line, reason in sorted(
            rows(partial_rows.BAD_LINE, "source", "number", "time", "name", "detail")
        )
    ]
    for bad in bad_lines:
        counts[bad.source].bad += 1
    for source, parsed in rows(partial_rows.PARSED, "source", "requests"):
        counts[source].parsed += parsed
    outcome.queue = dict(rows(partial_rows.QUEUE, "name", "requests"))
    metrics: dict[type[JobMetric], pa.Table] = {}
    for metric in METRICS:
        if metric.table in by_kind:
            metrics[metric] = by_kind[metric.table].select([*metric.keys, *metric.sums])
    if ServiceMinute in metrics:
        outcome.parsed_in_tables = pc.sum(metrics[ServiceMinute]["requests"]).as_py()
    return load.Load(metrics, bad_lines, lambda bad: before[bad.source, bad.block] + bad.number, counts)


def _worth_reading(database: Database, sources: Sequence[Source], digests: Sequence[str] | None) -> bool:
    """Whether there is something that may not be in the database yet."""
    if not any(source.size for source in sources):
        return False
    return digests is None or len(load.loaded_before(database, digests)) < len(set(digests))


def _mark_loaded(database: Database, sources: list[LogCounts]) -> list[int]:
    """Mark what is in the database, or came earlier in this run; return the places of the others."""
    known = load.loaded_before(database, [source.sha256 for source in sources])
    fresh = []
    for place, source in enumerate(sources):
        source.loaded_before = source.sha256 in known
        known.add(source.sha256)
        if not source.loaded_before:
            fresh.append(place)
    return fresh


def _open(url: DatabaseUrl) -> Database:
    database = Database(url)
    try:
        tables.create_tables(database)
    except database.errors as error:
        database.close()
        raise DatabaseError(f"cannot make tables in {url}: {one_line(error)}") from error
    return database


def _top(database: Database) -> list[tuple[str, int, int]]:
    return [tuple(row) for row in database.execute("SELECT endpoint, requests, bytes FROM top_endpoints ORDER BY rank")]


@dataclass
class _Running:
    items: int


class _StageClock:
    """Times the stages and tells the progress line of them."""

    def __init__(self, progress: Progress) -> None:
        self.stages: list[Stage] = []
        self._progress = progress

    @contextlib.contextmanager
    def stage(
        self, name: str, items: int, unit: str, tasks: Callable[[], tuple[int, int]] | None = None
    ) -> Iterator[_Running]:
        running = _Running(items)
        started = time.perf_counter()
        with self._progress.during(name, tasks):
            yield running
        self.stages.append(Stage(name, running.items, unit, time.perf_counter() - started))
