"""The printed summary of a run: the top endpoints, the pace of each stage, and the accounting identities."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from drainq.metrics.outcome import JobOutcome, Stage, accounted

WIDEST = 60  # characters of an endpoint in the table


def shortened(text: str, width: int = WIDEST) -> str:
    """Shorten a text to one printable line of at most ``width`` characters."""
    printable = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
    return printable if len(printable) <= width else printable[: width - 3] + "..."


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Format columns under a header. The columns in ``right`` are right-aligned."""
    widths = [max(map(len, column)) for column in zip(header, *rows)]
    lines = []
    for row in (header, ["-" * width for width in widths], *rows):
        cells = [
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def summary(outcome: JobOutcome) -> str:
    """Return the summary as text."""
    parts = []
    if outcome.top:
        rows = [
            (str(rank), shortened(endpoint), f"{requests:,}", f"{size:,}")
            for rank, (endpoint, requests, size) in enumerate(outcome.top, 1)
        ]
        parts.append(table(("rank", "endpoint", "requests", "bytes"), rows, right=(0, 2, 3)))
    stages = [
        (stage.name, f"{stage.items:,} {stage.unit}", f"{stage.seconds:.2f} s", _pace(stage))
        for stage in outcome.stages
    ]  # fmt: skip
    parts.append(table(("stage", "items", "time", "pace"), stages, right=(1, 2, 3)))
    parts += [f"{source.path}: read as {source.format}" for source in outcome.sources if source.format and source.lines]
    parts += [f"{source.path}: loaded before, not counted again" for source in outcome.sources if source.loaded_before]
    parts.append("\n".join(_identities(outcome)))
    return "\n\n".join(parts)


def as_json(outcome: JobOutcome, report: str) -> str:
    """Return the summary as one line of JSON.

    Its keys: ``reconciled`` (bool); ``lines``, ``parsed``, ``bad`` and ``parsed_in_tables`` (counts of lines); ``logs``
    (an object for each log); ``top`` (endpoint, requests, bytes; the best first); ``stages`` (name, items, unit,
    seconds); ``queues`` (the counters of ``tasks`` and of ``load``); ``written`` (rows by table); ``report`` (a path).
    """
    return json.dumps(
        {
            "reconciled": outcome.reconciled,
            "lines": outcome.lines,
            "parsed": outcome.parsed,
            "bad": outcome.bad,
            "parsed_in_tables": outcome.parsed_in_tables,
            "logs": [asdict(source) for source in outcome.sources],
            "top": [dict(zip(("endpoint", "requests", "bytes"), row)) for row in outcome.top],
            "stages": [asdict(stage) for stage in outcome.stages],
            "queues": {"tasks": outcome.queue, "load": outcome.l2},
            "written": outcome.written,
            "report": report,
        }
    )


def _pace(stage: Stage) -> str:
    if stage.items <= 1 or stage.seconds <= 0:
        return "-"
    return f"{stage.items / stage.seconds:,.0f} {stage.unit}/s"


def _identities(outcome: JobOutcome) -> Iterable[str]:
    lines_right = outcome.lines == outcome.parsed + outcome.bad and outcome.parsed == outcome.parsed_in_tables
    yield (
        f"lines    {outcome.lines:,} read = {outcome.parsed:,} parsed + {outcome.bad:,} bad; "
        f"{outcome.parsed_in_tables:,} requests in the tables: {_verdict(lines_right)}"
    )
    for name, queue in (("tasks", outcome.queue), ("load", outcome.l2)):
        rejected = {reason: count for reason, count in queue.items() if reason.startswith("rejected_")}
        refused = " ".join(
            f"{reason.removeprefix('rejected_')} {count:,}" for reason, count in rejected.items() if count
        )
        lost = ("failed", "unrouted", "dead_lettered", "abandoned", "queued")
        rest = " + ".join(f"{queue.get(reason, 0):,} {reason.replace('_', '-')}" for reason in lost)
        offered, accepted, handled = (queue.get(counter, 0) for counter in ("offered", "accepted", "handled"))
        yield (
            f"{name:8} {offered:,} offered = {accepted:,} accepted + {sum(rejected.values()):,} rejected"
            f"{f' ({refused})' if refused else ''}; "
            f"accepted = {handled:,} handled + {rest}: {_verdict(accounted(queue))}"
        )


def _verdict(right: bool) -> str:
    return "ok" if right else "WRONG"
