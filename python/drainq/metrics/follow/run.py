"""Following: counts new files or lines, round after round, until a signal ends it.

A directory is followed by Spark or by threads. A file is always followed by threads, because the lines of a few seconds
are less than one task's work.

1. A round is one transaction (:mod:`drainq.metrics.follow.rounds`), so the command may be killed.
2. A round that fails because a file changed is repeated. Any other error ends the run.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from drainq.metrics import steps
from drainq.metrics.bad_share import complaints, followed_logs
from drainq.metrics.errors import FileChanged, Interrupted, JobFailed, UserError
from drainq.metrics.follow.counted import Memory, counted_beginning
from drainq.metrics.job import DEFAULT_OUT, DEFAULT_TOP
from drainq.metrics.log_files import Source
from drainq.metrics.outcome import MAX_BAD, Followed
from drainq.metrics.progress import Progress
from drainq.metrics.spark_session import DEFAULT_HEAP, DEFAULT_MASTER, Launch, quiet_py4j, settings_for
from drainq.sql import Database, DatabaseUrl

if TYPE_CHECKING:
    from pyspark import SparkContext

    from drainq.metrics.follow.rounds import Rounds


class Ended(Protocol):
    """Decides when the run ends."""

    def wait(self, seconds: float) -> bool:
        """Wait, at most ``seconds``. Return True to end."""


class Ending:
    """Waits for SIGTERM. A context manager for the main thread.

    The signal handler only puts an item into a ``SimpleQueue``, which is safe whatever lock the main thread holds.
    """

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._ended = False
        self._before: Any = None

    def wait(self, seconds: float) -> bool:
        """Wait, at most ``seconds``. Return whether the signal came."""
        with contextlib.suppress(queue.Empty):
            self._ended = self._ended or self._asked.get(timeout=seconds)
        return self._ended

    def __enter__(self) -> Ending:
        self._before = signal.signal(signal.SIGTERM, lambda *_: self._asked.put(True))
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGTERM, self._before)


DEFAULT_EVERY = 2.0
DEFAULT_SETTLED = 10.0
_GRACE = 1.0  # seconds to wait for a signal that has already ended Java


def follow(
    path: str,
    *,
    ended: Ended,
    database: DatabaseUrl | None = None,
    out: str | Path = DEFAULT_OUT,
    engine: str | None = None,
    master: str = DEFAULT_MASTER,
    heap: str = DEFAULT_HEAP,
    conf: Mapping[str, str] | None = None,
    use_archive: bool = True,
    top: int = DEFAULT_TOP,
    max_bad: float = MAX_BAD,
    format: str | None = None,
    every: float = DEFAULT_EVERY,
    settled: float = DEFAULT_SETTLED,
    say: Callable[[str], None] = print,
    progress: Progress | None = None,
    context: SparkContext | None = None,
    now: Callable[[], float] = time.time,
) -> Followed:
    """Count files that are moved into a directory, or lines that are appended to a file, until ``ended`` returns True.

    Args:
        path: a directory into which finished logs are moved, or a log, which need not exist yet.
        ended: waited for between two rounds.
        database, out, master, heap, conf, use_archive, top, format, progress, context: as for
            :func:`drainq.metrics.job.run`.
        engine: ``"spark"`` or ``"local"``. None is Spark for a directory. A file is always followed by ``"local"``.
        every: seconds between two rounds.
        max_bad: percent of the lines that may be bad without a complaint.
        settled: seconds without a change after which a file is finished, or a rotated file has ended.
        say: called with sentences for the user, such as one about a file that is not counted.
        now: returns the seconds since the epoch.
    Raises:
        UserError, DatabaseError, JobFailed: the message names the reason. Earlier rounds stay counted.
    """
    is_directory = os.path.isdir(path)
    if engine not in (None, "local", "spark") or (engine == "spark" and not is_directory):
        raise UserError(
            f"--engine {engine} cannot follow the file {path!r}; leave --engine out, or follow a directory"
            if engine == "spark"
            else f"--engine must be 'spark' or 'local', got {engine!r}"
        )
    where = path if is_directory else os.path.dirname(path) or "."
    if not os.path.isdir(where):
        raise UserError(f"there is no directory {where!r} to follow; check the name")
    directory = Path(out)
    steps.make_directory(directory)
    with contextlib.ExitStack() as stack:
        connected = stack.enter_context(steps.open_database(database or DatabaseUrl.sqlite(directory / "metrics.db")))
        launch = None
        if is_directory and engine != "local" and context is None:
            settings = settings_for(master, directory, heap, conf=conf)
            launch = stack.enter_context(Launch(settings, directory / "spark.log", use_archive=use_archive))
            stack.enter_context(quiet_py4j())  # SIGTERM may end Java first, and then Py4J's threads log errors
        from drainq.metrics.follow.rounds import Rounds
        from drainq.metrics.report import write_report

        memory = Memory(connected, os.path.realpath(where))
        rounds = Rounds(connected, memory, path, top=top)
        interrupted = False
        uncounted: dict[str, str] = {}
        try:
            if is_directory:
                spark = launch.context() if launch else context
                made = _directory_rounds(path, memory, rounds, settled, say, now, spark, directory, uncounted, format)
            else:
                made = _file_rounds(path, connected, memory, rounds, settled, say, now, uncounted, format)
            with contextlib.closing(made):
                _until_ended(made, ended, every, progress or Progress(None), path, rounds)
        except (Interrupted, KeyboardInterrupt):
            interrupted = True
        if launch:
            launch.stop()
        rounds.end()
        [total] = rounds.outcome.sources
        rounds.outcome.complaints = complaints(connected, followed_logs(memory, path, total), max_bad)
        write_report(connected, directory / "report.html", rounds.outcome)
    return Followed(rounds.outcome, rounds.files, interrupted, list(uncounted.values()))


def _until_ended(
    made: Generator[str, None, None], ended: Ended, every: float, progress: Progress, path: str, rounds: Rounds
) -> None:
    """Run one round after the other, until ``ended`` returns True."""
    while True:
        try:
            waiting = next(made)
        except (JobFailed, OSError):
            if ended.wait(_GRACE):  # the signal that ends this process ended Java too
                return
            raise
        lines = rounds.outcome.lines
        with progress.during(f"following {path}: {lines:,} lines counted{waiting}"):
            if ended.wait(every):
                return


def _directory_rounds(
    path: str,
    memory: Memory,
    rounds: Rounds,
    settled: float,
    say: Callable[[str], None],
    now: Callable[[], float],
    spark: SparkContext | None,
    out: Path,
    uncounted: dict[str, str],
    format: str | None,
) -> Generator[str, None, None]:
    """Count the finished files of a directory, a round for each ``next``."""
    from drainq.metrics.engine import InThreads, OnSpark
    from drainq.metrics.follow.directory import Directory
    from drainq.metrics.follow.file_stream import FileStream

    directory = Directory(path, memory, settled, say, format)

    def load(sources: list[Source]) -> None:
        with contextlib.suppress(FileChanged):  # the next round finds the file again
            rounds.load_files(OnSpark(spark) if spark else InThreads(), sources, directory)

    with contextlib.ExitStack() as stack:
        take: Callable[[list[Source]], None] = load
        if spark:
            stream = stack.enter_context(FileStream(spark, out / "follow", load))
            stream.take([])
            take = stream.take
        while True:
            found = directory.finished(now())
            if found:
                take(found)
            uncounted.clear()
            uncounted.update(directory.uncounted)
            yield f", {directory.waiting} files wait" if directory.waiting else ""


def _file_rounds(
    path: str,
    database: Database,
    memory: Memory,
    rounds: Rounds,
    settled: float,
    say: Callable[[str], None],
    now: Callable[[], float],
    uncounted: dict[str, str],
    format: str | None,
) -> Generator[str, None, None]:
    """Count all lines that were appended to a file, at each ``next``."""
    from drainq.metrics.engine import InThreads
    from drainq.metrics.follow.tail import Tail

    tail = Tail(path, memory, lambda file: counted_beginning(file, database), settled, say, format)
    try:
        while True:
            while grown := tail.look(now()):  # a long file takes several rounds
                rounds.load_appended(InThreads(), grown)
                tail.keep()
            uncounted.update(tail.uncounted)
            yield ""
    finally:
        tail.close()
