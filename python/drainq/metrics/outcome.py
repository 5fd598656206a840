"""What a run of the job did, as numbers: the job fills it in; the summary and the report show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_BAD = 1.0  # percent of a log's lines


@dataclass
class LogCounts:
    """What one log came to; ``loaded_before`` logs were not read.

    ``before``: lines of it that were counted earlier, as it was followed; ``lines``, ``parsed`` and ``bad`` have those
    of this load alone. ``first_bad``: the number of its first bad line, and the reason.
    """

    path: str
    sha256: str
    lines: int = 0
    parsed: int = 0
    bad: int = 0
    loaded_before: bool = False
    before: int = 0
    first_bad: tuple[int, str] | None = None


@dataclass(frozen=True)
class Stage:
    """One step of the job: what it handled, how many, and how long it took."""

    name: str
    items: int
    unit: str
    seconds: float


@dataclass
class JobOutcome:
    """What a run did.

    Args:
        sources: every log that was named, with its counts; those loaded before have none.
        queue: the counters of the tasks' queues, summed, and ``l2`` those of the loading queue.
        top: (endpoint, requests, bytes), best first, over everything in the database.
        stages: the steps with their times. written: rows by table.
        parsed_in_tables: requests over the merged ``service_minute`` rows of this run.
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
        """Lines that did not."""
        return sum(source.bad for source in self.sources)

    @property
    def reconciled(self) -> bool:
        """Whether every line and every queued item is accounted for."""
        lines = self.lines == self.parsed + self.bad and self.parsed == self.parsed_in_tables
        return lines and all(accounted(queue) for queue in (self.queue, self.l2))


@dataclass(frozen=True)
class Followed:
    """What a following came to.

    Args:
        outcome: of all its rounds; ``sources`` has one entry, what was followed. files: how many were counted whole.
        interrupted: it ended by Ctrl-C. uncounted: a sentence for each file that is there and not counted.
    """

    outcome: JobOutcome
    files: int
    interrupted: bool
    uncounted: list[str]


def accounted(queue: Mapping[str, int]) -> bool:
    """Whether a queue's counters add up, and nothing was refused, failed or left behind."""
    offered, accepted = queue.get("offered", 0), queue.get("accepted", 0)
    refused = sum(count for name, count in queue.items() if name.startswith("rejected_"))
    lost = sum(queue.get(name, 0) for name in ("failed", "unrouted", "dead_lettered", "abandoned", "queued"))
    return offered == accepted + refused and accepted == queue.get("handled", 0) + lost and refused == lost == 0
