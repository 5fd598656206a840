"""One round of following: reads and aggregates new lines, and writes the groups in one transaction.

1. The metrics, the ``sources`` rows of files that are counted to their end, and the ``followed`` rows are one
   transaction: after a crash a round is complete or absent. After Ctrl-C the counts here agree with the database.
2. A file whose content was loaded before, under any name, only gets a row in ``followed``.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from drainq.metrics import steps
from drainq.metrics.blocks import Task, tasks
from drainq.metrics.engine import Runs
from drainq.metrics.errors import UserError
from drainq.metrics.follow.counted import GONE, Counted, Memory, head_of
from drainq.metrics.follow.directory import Directory, changed_after
from drainq.metrics.load import rank
from drainq.metrics.log_files import Source, digest, loaded_before
from drainq.metrics.outcome import JobOutcome, LogCounts, Stage
from drainq.metrics.steps import ctrl_c_later
from drainq.metrics.tables import SOURCES
from drainq.sql import Database, Upsert

if TYPE_CHECKING:
    from drainq.metrics.follow.tail import Grown

RANKED_EVERY = 60.0  # seconds between two rankings, which read a whole table


class Rounds:
    """Counts new files and lines, round by round.

    Args:
        database: with its tables. memory: the counted bytes of the files.
        path: the followed path. top: how many endpoints to rank.
        clock: seconds, for the stages and the time between two rankings.
    """

    def __init__(
        self,
        database: Database,
        memory: Memory,
        path: str,
        *,
        top: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._memory, self._top, self._clock = database, memory, top, clock
        self._ranked = -RANKED_EVERY
        self._total = LogCounts(path, "")
        self.outcome = JobOutcome([self._total])
        self.files = 0
        self._seconds: Counter[str] = Counter()

    def load_files(self, runs: Runs, sources: Sequence[Source], directory: Directory) -> None:
        """Count finished files that are not yet counted.

        Raises:
            UserError, DatabaseError, JobFailed, Interrupted: nothing of this round was written.
        """
        fresh: list[Source] = []
        rows: dict[str, Counted] = {}
        known: set[str] = set()
        for source in sources:
            try:
                content = digest(source)
                row = self._row(source, content)
            except FileNotFoundError:
                continue
            except UserError as error:
                directory.leave_out(source, str(error))
                continue
            before = self._memory.of(int(row.inode))
            if before and before.sha256 != content and before.head == row.head:
                directory.leave_out(source, changed_after(source.path, before))
                continue
            if content not in known and not loaded_before(self._database, [content]):
                fresh.append(dataclasses.replace(source, number=len(fresh)))
            known.add(content)
            rows[source.path] = row
        if not rows:
            return
        counts = [LogCounts(source.path, rows[source.path].sha256) for source in fresh]

        def counted() -> list[Counted]:
            found = {each.sha256: each for each in counts}
            empty = LogCounts("", "")
            pairs = [(row, found.get(row.sha256, empty)) for row in rows.values()]
            return [dataclasses.replace(row, lines=each.lines, parsed=each.parsed, bad=each.bad) for row, each in pairs]

        self._load(runs, tasks(fresh), fresh, counts, counted)
        self.files += len(fresh)

    def load_appended(self, runs: Runs, grown: Sequence[Grown]) -> None:
        """Count lines that were appended to files.

        Raises:
            UserError, DatabaseError, JobFailed, Interrupted: nothing of this round was written.
        """
        counts = [LogCounts(each.path, "", before=each.counted.lines, bad_before=each.counted.bad) for each in grown]
        work = [task for place, each in enumerate(grown) for task in each.tasks(place)]
        self._load(runs, work, (), counts, lambda: [each.after(of) for each, of in zip(grown, counts)], appended=True)

    def end(self) -> None:
        """Rank the endpoints, and finish the outcome."""
        if self._total.lines:
            with self._database.transaction():
                self.outcome.written["top_endpoints"] = rank(self._database, self._top)
        self.outcome.top = steps.top_of(self._database)
        lines, rows = self._total.lines, sum(self.outcome.written.values())
        self.outcome.stages = [
            Stage("read and aggregate (L1)", lines, "lines", self._seconds["read"]),
            Stage("load (L2)", rows, "rows", self._seconds["load"]),
        ]

    def _row(self, source: Source, content: str) -> Counted:
        with open(source.path, "rb") as file:
            status = os.fstat(file.fileno())
            head = head_of(file, source.size)
        if (status.st_size, status.st_mtime_ns) != (source.size, source.changed):
            raise UserError(f"{source.path!r} is being written; it is not counted yet")
        return Counted(
            self._memory.directory, str(status.st_ino), os.path.basename(source.path),
            source.size, source.changed, head=head, sha256=content,
        )  # fmt: skip

    def _load(
        self,
        runs: Runs,
        work: Sequence[Task],
        sources: Sequence[Source],
        counts: Sequence[LogCounts],
        rows: Callable[[], Iterable[Counted]],
        *,
        appended: bool = False,
    ) -> None:
        started = self._clock()
        outcome = JobOutcome(list(counts))
        written: list[Counted] = []
        with ctrl_c_later() as hold_ctrl_c, tempfile.TemporaryDirectory(prefix="drainq-logs-") as spool:
            results = steps.results_of(runs, work, sources, Path(spool)) if work else []
            loading = steps.loading_of(outcome, results, counts)
            read = self._clock()

            def note() -> None:
                written.extend(rows())
                self._memory.write(written)
                if appended:
                    self._enter(written)
                hold_ctrl_c()

            loading.also = note
            ranks = read - self._ranked >= RANKED_EVERY and bool(work)
            steps.write_load(self._database, loading, outcome, self._top if ranks else None)
            self._memory.keep(written)
            self._ranked = read if ranks else self._ranked
            self._seconds.update({"read": read - started, "load": self._clock() - read})
            self._add(outcome)

    def _enter(self, rows: Iterable[Counted]) -> None:
        """Enter the files that are now counted to their end as loaded logs."""
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        ended = [
            (row.sha256, os.path.join(row.directory, row.name), row.lines, row.parsed, row.bad, now)
            for row in rows
            if row.sha256 not in ("", GONE)
        ]
        Upsert(SOURCES.name, SOURCES.names, key=SOURCES.key).write(self._database, ended)

    def _add(self, outcome: JobOutcome) -> None:
        total, whole = self._total, self.outcome
        total.lines += outcome.lines
        total.parsed += outcome.parsed
        total.bad += outcome.bad
        for log in outcome.sources:
            total.reasons = dict(Counter(total.reasons) + Counter(log.reasons))
        total.first_bad = total.first_bad or next((log.first_bad for log in outcome.sources if log.first_bad), None)
        whole.parsed_in_tables += outcome.parsed_in_tables
        for mine, theirs in (
            (whole.queue, outcome.queue),
            (whole.l2, outcome.l2),
            (whole.written, outcome.written),
        ):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count
