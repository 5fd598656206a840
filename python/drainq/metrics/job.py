"""The job: logs in, tables, report and a reconciled summary out.

    find logs -> digests, and Spark starts -> tasks read, parse and add up (L1) -> merge and load (L2) -> report

1. ``lines = parsed + bad`` is checked on three numbers of different origin: lines counted as they were read, requests
   summed over the merged ``service_minute`` rows, and bad lines that arrived.
2. Each task's queue counters are part of its result, so the accounting identity is summed over the attempts that
   counted.
3. Java is started before anything that needs Arrow is imported: both take a while, side by side.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drainq.metrics import tables
from drainq.metrics.blocks import tasks
from drainq.metrics.errors import Interrupted, JobFailed, UserError, was_interrupted
from drainq.metrics.log_files import Digests, Source, find
from drainq.metrics.metric_types import LinesRead
from drainq.metrics.outcome import JobOutcome, LogCounts, Stage
from drainq.metrics.progress import Progress
from drainq.metrics.spark_session import DEFAULT_HEAP, DEFAULT_MASTER, Launch, settings_for
from drainq.sql import Database, DatabaseError, DatabaseUrl
from drainq.sql.driver_errors import one_line

if TYPE_CHECKING:
    from pyspark import SparkContext

    from drainq.metrics.engine import Runs
    from drainq.metrics.load import Load

DEFAULT_OUT = "drainq-out"
DEFAULT_TOP = 10
PATIENCE = 0.1  # seconds to wait for the digests before the logs are read beside them; they may be loaded already


def run(
    logs: Sequence[str],
    *,
    database: DatabaseUrl | None = None,
    out: str | Path = DEFAULT_OUT,
    engine: str = "spark",
    master: str = DEFAULT_MASTER,
    heap: str = DEFAULT_HEAP,
    use_archive: bool = True,
    top: int = DEFAULT_TOP,
    progress: Progress | None = None,
    context: SparkContext | None = None,
) -> JobOutcome:
    """Load access logs into service metrics.

    Args:
        logs: paths of logs, plain or gzip.
        database: where the tables go; None: ``metrics.db`` in ``out``.
        out: a directory for the report and Spark's log; made if it is not there.
        engine: ``"spark"``, or ``"local"`` for threads of this process.
        master: Spark's master. heap: the memory of Java's objects, as Java's options say it.
        use_archive: start Java with the archive of classes, if there is one.
        top: how many endpoints to rank.
        progress: is called as each stage begins and ends; None: no call.
        context: a Spark to use; None: one is started and stopped. It may stop in a thread after the return.
    Raises:
        UserError, DatabaseError: something that the message says how to put right; nothing was loaded.
        JobFailed, Interrupted: nothing was loaded.
    """
    if top < 1:
        raise UserError(f"--top must be at least 1, got {top}")
    if engine not in ("spark", "local"):
        raise UserError(f"--engine must be 'spark' or 'local', got {engine!r}")
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
    loaded: list[Path] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(_interruptible(loaded))
        connected = stack.enter_context(_open(url))
        digests = Digests(sources)
        stack.callback(digests.close)
        with clock.stage("digest", len(sources), unit):
            found = digests.result(timeout=PATIENCE)
        launch = None
        if engine == "spark" and context is None and _worth_reading(connected, sources, found):
            settings = settings_for(master, directory, heap)
            launch = stack.enter_context(Launch(settings, directory / "spark.log", use_archive=use_archive))
        from drainq.metrics.engine import InThreads, OnSpark  # invariant 3
        from drainq.metrics.report import write_report

        def started() -> OnSpark:
            with clock.stage("start Spark", 1, "session"):
                spark = launch.context() if launch else context
                assert spark is not None, "there is something to read, so one was started or given"
                return OnSpark(spark)

        def read(these: Sequence[Source]) -> list[Any]:
            runs = InThreads() if engine == "local" else started()
            with clock.stage("read and aggregate (L1)", 0, "lines", runs.done) as stage:
                results = _results(runs, these, spool)
                stage.items = sum(result.lines for result in results if isinstance(result, LinesRead))
            return results

        shared = None if engine == "local" or master.startswith("local") else directory.absolute()
        spool = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="drainq-logs-", dir=shared)))
        results = None
        if found is None:
            if engine == "local":  # there is nothing to wait for: read, and look afterwards whether it was wanted
                results = read(sources)
            with clock.stage("digest, the rest", len(sources), unit):
                found = digests.result()
        outcome = JobOutcome(
            [LogCounts(source.path, digest) for source, digest in zip(sources, found)], stages=clock.stages
        )
        fresh = _mark_loaded(connected, outcome.sources)
        if fresh:
            new = [dataclasses.replace(sources[place], number=number) for number, place in enumerate(fresh)]
            if not any(source.size for source in new):
                results = []
            elif results is None or len(new) < len(sources):
                results = read(new)
            if launch:
                launch.stop()
            loading = _loading(outcome, results, [outcome.sources[place] for place in fresh])
            with clock.stage("load (L2)", 0, "rows") as stage:
                _write(connected, loading, outcome, top)
                stage.items = sum(loading.written.values())
            loaded.append(directory)
        outcome.top = _top(connected)
        with clock.stage("report", 1, "page"):
            write_report(connected, directory / "report.html", outcome)
    return outcome


@contextlib.contextmanager
def _interruptible(loaded: Sequence[object]) -> Iterator[None]:
    """Say of a Ctrl-C in the block that nothing was loaded, as long as ``loaded`` is empty."""
    try:
        yield
    except KeyboardInterrupt:
        if loaded:
            raise
        raise Interrupted("interrupted; nothing was loaded") from None


def _results(runs: Runs, sources: Sequence[Source], spool: Path) -> list[Any]:
    """What the tasks return that read these sources."""
    try:
        results = runs(tasks(sources), spool)
    except (Exception, KeyboardInterrupt) as error:  # whatever Java, Py4J or a task raised
        if was_interrupted(error):
            raise Interrupted("interrupted; nothing was loaded") from None
        for source in sources:  # a changed log is the likeliest reason, so it is checked first
            source.check_unchanged()
        raise JobFailed(f"the job failed, and nothing was loaded: {_reason(error)}") from error
    for source in sources:
        source.check_unchanged()
    return results


def _reason(error: BaseException) -> str:
    """The one line of a Java or Python stack that says what happened."""
    lines = [line.strip() for line in str(error).splitlines()]
    if isinstance(error, MemoryError) or any(re.search("OutOfMemoryError|MemoryError", line) for line in lines):
        return "memory came to its end; give Java more with --heap, or load fewer logs at once"
    if not type(error).__module__.startswith(("py4j", "pyspark")):
        return f"{type(error).__name__}: {error}"[:500]
    said = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Invalid|Exit|Interrupt)\b", line)]
    return (said or lines or [type(error).__name__])[0][:500]


def _loading(outcome: JobOutcome, results: Sequence[Any], counts: Sequence[LogCounts]) -> Load:
    """Count the lines by source, and sort what is to be loaded."""
    from drainq.metrics.handlers import QueueCounts, Spooled
    from drainq.metrics.load import Load

    files: dict[str, list[Spooled]] = defaultdict(list)
    before: dict[tuple[int, int], int] = {}
    queue: Counter[str] = Counter()
    for result in results:
        if isinstance(result, Spooled):
            files[result.kind].append(result)
        elif isinstance(result, QueueCounts):
            queue.update(result.counts)
    for read in sorted((r for r in results if isinstance(r, LinesRead)), key=lambda read: (read.source, read.block)):
        source = counts[read.source]
        before[read.source, read.block] = source.lines  # lines of the blocks in front of this one
        source.lines += read.lines
        source.parsed += read.parsed
    outcome.queue = dict(queue)
    return Load(files, before, counts)


def _write(database: Database, loading: Load, outcome: JobOutcome, top: int) -> None:
    from drainq.metrics.handlers import counters
    from drainq.metrics.load import write

    try:
        outcome.l2 = counters(write(database, loading, top=top))
    except database.errors as error:
        raise DatabaseError(f"{database.url} refused the load, nothing was written: {one_line(error)}") from error
    outcome.written = loading.written
    outcome.parsed_in_tables = loading.requests


def _worth_reading(database: Database, sources: Sequence[Source], digests: Sequence[str] | None) -> bool:
    """Whether there is something that may not be in the database yet."""
    if not any(source.size for source in sources):
        return False
    return digests is None or len(tables.loaded_before(database, digests)) < len(set(digests))


def _mark_loaded(database: Database, sources: list[LogCounts]) -> list[int]:
    """Mark what is in the database, or came earlier in this run; return the places of the others."""
    known = tables.loaded_before(database, [source.sha256 for source in sources])
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
    except DatabaseError:
        database.close()
        raise
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
