"""The job: reads logs, and writes tables, a report and a reconciled summary.

    find logs -> digests, and Spark starts -> tasks read, parse and add up (L1) -> merge and load (L2) -> report

1. ``lines = parsed + bad`` compares three numbers of different origin: the lines counted by the readers, the requests
   summed over the merged ``service_minute`` rows, and the bad lines that arrived.
2. Each task's result contains the counters of its queue, so the sums leave out failed attempts.
3. Java is started before Arrow is imported, because both are slow and then run side by side.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drainq.metrics import steps
from drainq.metrics.bad_share import complaints
from drainq.metrics.blocks import tasks
from drainq.metrics.errors import Interrupted, UserError
from drainq.metrics.follow.counted import check_not_followed
from drainq.metrics.log_files import Digests, Source, find, loaded_before
from drainq.metrics.log_names import is_remote
from drainq.metrics.metric_types import LinesRead
from drainq.metrics.outcome import MAX_BAD, JobOutcome, LogCounts
from drainq.metrics.progress import Progress
from drainq.metrics.spark_session import DEFAULT_HEAP, DEFAULT_MASTER, Launch, settings_for
from drainq.metrics.steps import ctrl_c_later
from drainq.sql import Database, DatabaseUrl

if TYPE_CHECKING:
    from pyspark import SparkContext


DEFAULT_OUT = "drainq-out"
DEFAULT_TOP = 10
PATIENCE = 0.1  # seconds to wait for the digests, which may show that nothing has to be read


def run(
    logs: Sequence[str],
    *,
    database: DatabaseUrl | None = None,
    out: str | Path = DEFAULT_OUT,
    engine: str = "spark",
    master: str = DEFAULT_MASTER,
    heap: str = DEFAULT_HEAP,
    conf: Mapping[str, str] | None = None,
    use_archive: bool = True,
    top: int = DEFAULT_TOP,
    max_bad: float = MAX_BAD,
    format: str | None = None,
    progress: Progress | None = None,
    context: SparkContext | None = None,
) -> JobOutcome:
    """Read access logs, and load their service metrics into a database.

    Args:
        logs: paths of logs, plain or compressed, or URLs that Spark reads.
        database: where the tables go; None: ``metrics.db`` in ``out``.
        out: a directory for the report and Spark's log; made if it is not there.
        engine: ``"spark"``, or ``"local"`` for threads of this process.
        master: Spark's master. heap: the size of Java's heap, as in Java's options.
        conf: more of Spark's settings, by name.
        use_archive: start Java with the archive of classes, if there is one.
        top: how many endpoints to rank.
        format: of the lines, as ``--format`` takes it; None: found from the first lines of each log.
        max_bad: percent of a log's lines that may be bad without a complaint.
        progress: shows the running stage; None shows nothing.
        context: the Spark to use. None starts Spark if needed, and stops it in a thread, perhaps after the return.
    Raises:
        UserError, DatabaseError: nothing was loaded. The message tells the user what to change.
        JobFailed, Interrupted: nothing was loaded.
    """
    if top < 1:
        raise UserError(f"--top must be at least 1, got {top}")
    if engine not in ("spark", "local"):
        raise UserError(f"--engine must be 'spark' or 'local', got {engine!r}")
    progress = progress or Progress(None)
    near = [path for path in logs if engine == "local" or not is_remote(path)]
    here = {path: find(number, path, format) for number, path in enumerate(near)}
    directory = Path(out)
    steps.make_directory(directory)
    url = database or DatabaseUrl.sqlite(directory / "metrics.db")
    clock = steps.StageClock(progress)
    loaded: list[Path] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(_interruptible(loaded))
        connected = stack.enter_context(steps.open_database(url))
        spool = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="drainq-logs-")))
        launch, spark = None, None

        def launched() -> Launch:
            settings = settings_for(master, directory, heap, conf=conf)
            return stack.enter_context(Launch(settings, directory / "spark.log", use_archive=use_archive))

        def started() -> SparkContext:
            nonlocal spark
            if spark is None:
                with clock.stage("start Spark", 1, "session"):
                    spark = launch.context() if launch else context
            assert spark is not None, "there is something to read, so one was started or given"
            return spark

        if all(path in here for path in logs):
            sources = [here[path] for path in logs]
        else:
            launch = None if context else launched()
            sources = _with_remote(started(), logs, here, format, spool, clock)
        digests = Digests(sources)
        stack.callback(digests.close)
        with clock.stage("digest", len(sources), "log" if len(sources) == 1 else "logs"):
            found = digests.result(timeout=PATIENCE)
        if engine == "spark" and not (context or launch) and _worth_reading(connected, sources, found):
            launch = launched()
        from drainq.metrics.engine import InThreads, OnSpark  # invariant 3
        from drainq.metrics.remote import remote_tasks
        from drainq.metrics.report import write_report

        def read(these: Sequence[Source]) -> list[Any]:
            runs = InThreads() if engine == "local" else OnSpark(started())
            work = [*tasks([source for source in these if not is_remote(source.path)]), *remote_tasks(these)]
            with clock.stage("read and aggregate (L1)", 0, "lines", runs.done) as stage:
                results = steps.results_of(runs, work, these, spool)
                stage.items = sum(result.lines for result in results if isinstance(result, LinesRead))
            return results

        results = None
        if found is None:
            if engine == "local":  # read now, and check afterwards which logs were loaded before
                results = read(sources)
            with clock.stage("digest, the rest", len(sources), "log" if len(sources) == 1 else "logs"):
                found = digests.result()
        outcome = JobOutcome(
            [LogCounts(source.path, digest, format=source.format) for source, digest in zip(sources, found)],
            stages=clock.stages,
        )
        fresh = _mark_loaded(connected, outcome.sources)
        for place in fresh:
            if not is_remote(sources[place].path):
                check_not_followed(connected, sources[place].path)
        if fresh:
            new = [replace(sources[place], number=number) for number, place in enumerate(fresh)]
            if not any(source.size for source in new):
                results = []
            elif results is None or len(new) < len(sources):
                results = read(new)
            if launch:
                launch.stop()
            loading = steps.loading_of(outcome, results, [outcome.sources[place] for place in fresh])
            with clock.stage("load (L2)", 0, "rows") as stage, ctrl_c_later() as loading.also:
                steps.write_load(connected, loading, outcome, top)
                stage.items = sum(loading.written.values())
                loaded.append(directory)
        outcome.top = steps.top_of(connected)
        outcome.complaints = complaints(connected, outcome.sources, max_bad)
        with clock.stage("report", 1, "page"):
            write_report(connected, directory / "report.html", outcome)
    return outcome


def _with_remote(
    spark: SparkContext,
    logs: Sequence[str],
    here: Mapping[str, Source],
    format: str | None,
    spool: Path,
    clock: steps.StageClock,
) -> list[Source]:
    """Find, with Spark, the logs that are not ``here``, and their digests. Return all logs."""
    from drainq.metrics.engine import DigestOnSpark
    from drainq.metrics.remote import RemoteFiles, remote_tasks

    files, runs = RemoteFiles(spark), DigestOnSpark(spark)
    sources: list[Source] = []
    for path in logs:
        sources += [here[path]] if path in here else files.matching(path, format)
    work = remote_tasks(sources)
    with clock.stage("digest at URLs", len(work), "logs", runs.done):
        found = dict(steps.results_of(runs, work, [s for s in sources if is_remote(s.path)], spool))
    nothing = hashlib.sha256().hexdigest()
    return [replace(s, sha256=found.get(s.path, nothing)) if is_remote(s.path) else s for s in sources]


@contextlib.contextmanager
def _interruptible(loaded: Sequence[object]) -> Iterator[None]:
    """Turn Ctrl-C in the block into Interrupted with "nothing was loaded", as long as ``loaded`` is empty."""
    try:
        yield
    except KeyboardInterrupt:
        if loaded:
            raise
        raise Interrupted("interrupted; nothing was loaded") from None


def _worth_reading(database: Database, sources: Sequence[Source], digests: Sequence[str] | None) -> bool:
    """Return whether there are lines to read, and a log may be missing in the database."""
    if not any(source.size for source in sources):
        return False
    return digests is None or len(loaded_before(database, digests)) < len(set(digests))


def _mark_loaded(database: Database, sources: list[LogCounts]) -> list[int]:
    """Mark the logs that are in the database, or are repeated in this run. Return the places of the others."""
    known = loaded_before(database, [source.sha256 for source in sources])
    fresh = []
    for place, source in enumerate(sources):
        source.loaded_before = source.sha256 in known
        known.add(source.sha256)
        if not source.loaded_before:
            fresh.append(place)
    return fresh
