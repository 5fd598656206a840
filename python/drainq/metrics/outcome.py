"""The outcome of a run: the counts that the job collects, and that the summary and the report show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_BAD = 1.0  # percent of a log's lines
COMMON = "common or combined"


@dataclass
class LogCounts:
    """The counts of one log. A log that was ``loaded_before`` was not read.

    ``lines``, ``parsed``, ``bad`` and ``reasons`` (of the bad lines) count only this load. ``before`` and
    ``bad_before`` count the lines and bad lines of a followed file that earlier rounds counted. ``first_bad``: the
    number of the log's first bad line, the reason, and the line. ``format``: as in a source; None: not known.
    """

    path: str
    sha256: str
    lines: int = 0
    parsed: int = 0
    bad: int = 0
    loaded_before: bool = False
    before: int = 0
    bad_before: int = 0
    first_bad: tuple[int, str, str] | None = None
    format: str | None = None
    reasons: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """One step of the job, with the number of items it handled and the seconds it took."""

    name: str
    items: int
    unit: str
    seconds: float


@dataclass
class JobOutcome:
    """The result of a run.

    Args:
        sources: every named log, with its counts. The counts of logs that were loaded before are 0.
        queue: the sums of the counters of the tasks' queues. l2: the counters of the loading queue.
        top: (endpoint, requests, bytes), best first, over everything in the database.
        stages: the steps with their times. written: rows by table.
        parsed_in_tables: the sum of the requests in the merged ``service_minute`` rows of this run.
        complaints: a sentence for each log that has too many bad lines.
    """

    sources: list[LogCounts]
    queue: dict[str, int] = field(default_factory=dict)
    l2: dict[str, int] = field(default_factory=dict)
    top: list[tuple[str, int, int]] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    written: dict[str, int] = field(default_factory=dict)
    parsed_in_tables: int = 0
    complaints: list[str] = field(default_factory=list)

    @property
    def lines(self) -> int:
        """Lines read by this run."""
        return sum(source.lines for source in self.sources)

    @property
    def parsed(self) -> int:
        """Lines that became records."""
        return sum(source.parsed for source in self.sources)

    @property
    def bad(self) -> int:
        """Lines that are not log records."""
        return sum(source.bad for source in self.sources)

    @property
    def reconciled(self) -> bool:
        """Whether every line and every queued item is accounted for."""
        lines = self.lines == self.parsed + self.bad and self.parsed == self.parsed_in_tables
        return lines and all(accounted(queue) for queue in (self.queue, self.l2))


@dataclass(frozen=True)
class Followed:
    """The result of following.

    Args:
        outcome: all rounds together; its one source is the followed path. files: the number of files counted whole.
        interrupted: Ctrl-C ended the run. uncounted: a sentence for each file that is not counted to its end.
    """

    outcome: JobOutcome
    files: int
    interrupted: bool
    uncounted: list[str]


def accounted(queue: Mapping[str, int]) -> bool:
    """Return whether a queue's counters add up, and nothing was refused, failed or left behind."""
    offered, accepted = queue.get("offered", 0), queue.get("accepted", 0)
    refused = sum(count for name, count in queue.items() if name.startswith("rejected_"))
    lost = sum(queue.get(name, 0) for name in ("failed", "unrouted", "dead_lettered", "abandoned", "queued"))
    return offered == accepted + refused and accepted == queue.get("handled", 0) + lost and refused == lost == 0
