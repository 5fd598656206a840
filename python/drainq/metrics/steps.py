"""The steps between tasks and tables that a run of the job and a round of following share.

1. A step that fails or is interrupted has loaded nothing.
2. The error of a task becomes one sentence.
"""

from __future__ import annotations

import contextlib
import re
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drainq.metrics import tables
from drainq.metrics.errors import Interrupted, JobFailed, UserError, lines_of, was_interrupted
from drainq.metrics.log_files import Source
from drainq.metrics.metric_types import LinesRead
from drainq.metrics.outcome import JobOutcome, LogCounts, Stage
from drainq.metrics.progress import Progress
from drainq.sql import Database, DatabaseError, DatabaseUrl
from drainq.sql.error_text import error_text

if TYPE_CHECKING:
    from drainq.metrics.blocks import Task
    from drainq.metrics.engine import Runs
    from drainq.metrics.load import Load


@contextlib.contextmanager
def ctrl_c_later() -> Iterator[Callable[[], None]]:
    """Yield a function; after its call, Ctrl-C waits for the end of the block.

    Before the call, Ctrl-C rolls the transaction back. After the call, it is raised at the end of the block, so the
    counts that a command prints are those in the database.

    The function does nothing if Ctrl-C is ignored. It does nothing on other threads either, because Ctrl-C interrupts
    only the main thread.

    Example:
        >>> with ctrl_c_later() as hold:
        ...     hold()
        ...     print("committed, and counted")
        committed, and counted
    """
    before = signal.getsignal(signal.SIGINT)
    came: list[int] = []
    held: list[bool] = []

    def hold() -> None:
        if callable(before) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, lambda number, _: came.append(number))
            held.append(True)

    try:
        yield hold
    finally:
        if held:
            signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)


def results_of(runs: Runs, tasks: Sequence[Task], sources: Sequence[Source], spool: Path) -> list[Any]:
    """Run the tasks that read these sources, and return their results.

    Raises:
        UserError: a source changed while being read, or a task refused. JobFailed: a task failed. Interrupted: Ctrl-C.
    """
    try:
        results = runs(tasks, spool)
    except (Exception, KeyboardInterrupt) as error:  # whatever Java, Py4J or a task raised
        if was_interrupted(error):
            raise Interrupted("interrupted; nothing was loaded") from None
        for source in sources:  # a changed log is the likeliest reason, so it is checked first
            source.check_unchanged()
        if isinstance(error, UserError):
            raise
        raise JobFailed(f"the job failed, and nothing was loaded: {_reason(error)}") from error
    for source in sources:
        source.check_unchanged()
    return results


def _reason(error: BaseException) -> str:
    """Return the line of a Java or Python traceback that names the error."""
    lines = lines_of(error)
    if isinstance(error, MemoryError) or any(re.search("OutOfMemoryError|MemoryError", line) for line in lines):
        return "memory came to its end; give Java more with --heap, or load fewer logs at once"
    if not type(error).__module__.startswith(("py4j", "pyspark")):
        return error_text(error)
    place = ""
    for line in lines:
        if found := re.match(r'\s*File ".*?([^"/]+)", line (\d+)', line):
            place = f" at {found[1]}:{found[2]}"
        if found := re.match(r"[\w.]+(Error|Exception|Invalid|Exit|Interrupt)\b", line):
            # Show the text of errors of Java and of this application. The text of others may contain values of the log.
            told = line.startswith(("java.", "org.apache.", "drainq.metrics.errors."))
            return line[:500] if told else found[0] + place
    return next((line[2:502] for line in lines if line.startswith(": ")), lines[0][:500])  # Java's text follows Py4J's


def loading_of(outcome: JobOutcome, results: Sequence[Any], counts: Sequence[LogCounts]) -> Load:
    """Count the lines of each source, and sort the tasks' files by table."""
    from drainq.metrics.handlers import BadCounts, QueueCounts, Spooled
    from drainq.metrics.load import Load

    files: dict[str, list[Spooled]] = defaultdict(list)
    before: dict[tuple[int, int], int] = {}
    queue: Counter[str] = Counter()
    directives: Counter[int] = Counter()
    for result in results:
        if isinstance(result, Spooled):
            files[result.kind].append(result)
        elif isinstance(result, BadCounts):
            source = counts[result.source]
            source.reasons = dict(Counter(source.reasons) + result.reasons)
        elif isinstance(result, QueueCounts):
            queue.update(result.counts)
    for read in sorted((r for r in results if isinstance(r, LinesRead)), key=lambda read: (read.source, read.block)):
        source = counts[read.source]
        before[read.source, read.block] = source.before + source.lines + directives[read.source]  # lines before it
        directives[read.source] += read.directives
        source.lines += read.lines
        source.parsed += read.parsed
    for source in counts:
        source.bad = sum(source.reasons.values())
    outcome.queue = dict(queue)
    return Load(files, before, counts)


def write_load(database: Database, loading: Load, outcome: JobOutcome, top: int | None) -> None:
    """Write a load in one transaction. ``top``: how many endpoints to rank; None keeps the ranks.

    Raises:
        UserError, DatabaseError: nothing was written.
    """
    from drainq.metrics.handlers import counters
    from drainq.metrics.load import write

    try:
        outcome.l2 = counters(write(database, loading, top=top))
    except database.errors as error:
        raise DatabaseError(f"{database.url} refused the load, nothing was written: {error_text(error)}") from error
    outcome.written = loading.written
    outcome.parsed_in_tables = loading.requests


def make_directory(directory: Path) -> None:
    """Make the directory for the output, if it does not exist."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot make the directory {str(directory)!r} ({error.strerror}); name another with --out"
        ) from error


def open_database(url: DatabaseUrl) -> Database:
    """Open the database, and create its tables."""
    database = Database(url)
    try:
        tables.create_tables(database)
    except database.errors as error:
        database.close()
        raise DatabaseError(f"cannot make tables in {url}: {error_text(error)}") from error
    except DatabaseError:
        database.close()
        raise
    return database


def top_of(database: Database) -> list[tuple[str, int, int]]:
    """Return the stored ranks."""
    return [tuple(row) for row in database.execute("SELECT endpoint, requests, bytes FROM top_endpoints ORDER BY rank")]


@dataclass
class Running:
    """A stage that has not ended, with the number of items to report."""

    items: int


class StageClock:
    """Times the stages, and shows them on the progress line."""

    def __init__(self, progress: Progress) -> None:
        self.stages: list[Stage] = []
        self._progress = progress

    @contextlib.contextmanager
    def stage(
        self, name: str, items: int, unit: str, tasks: Callable[[], tuple[int, int]] | None = None
    ) -> Iterator[Running]:
        """Time the block. It may set ``items`` of the yielded object until its end."""
        running = Running(items)
        started = time.perf_counter()
        with self._progress.during(name, tasks):
            yield running
        self.stages.append(Stage(name, running.items, unit, time.perf_counter() - started))
