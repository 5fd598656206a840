"""The samples of the classes written in Python: their names, labels and values.

The families are those of the native catalogue, which refuses unknown names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Sample = tuple[str, list[str], Any]
"""The family's name, the values of its labels, the value. A histogram's value is as ``publish_samples`` takes it."""


class Kind(NamedTuple):
    """A kind of object: ``name`` is its label ``kind``. Only its statistics have the attribute ``mark``. ``fields`` are
    the attributes that become samples. ``more`` makes more samples from the name, object and statistics. ``in_memory``:
    its ``stats()`` reads memory only, no database.
    """

    name: str
    mark: str
    fields: str
    more: Callable[[str, Any, Any], list[Sample]] = lambda name, thing, stats: []
    in_memory: bool = True


def _scheduler_sources(name: str, scheduler: Any, stats: Any) -> list[Sample]:
    return [
        (f"drainq_scheduler_{field}", [name, source], getattr(counts, field))
        for source, counts in stats.sources.items()
        for field in ("moved", "failed", "errors")
    ]


def _delayed_times_and_counters(name: str, queue: Any, stats: Any) -> list[Sample]:
    done = queue.activity()
    times = {"lateness": done.lateness, "handler": done.handler_time}
    return [
        ("drainq_delayed_oldest_ready_age_seconds", [name], stats.oldest_ready_age),
        ("drainq_delayed_longest_held_seconds", [name], stats.longest_held),
        *((f"drainq_delayed_{what}", [name], count) for what, count in vars(done).items() if isinstance(count, int)),
        *((f"drainq_delayed_{what}_seconds", [name], (it.up_to, it.sum, it.count)) for what, it in times.items()),
    ]


KINDS = (
    Kind(
        "delayed",
        "oldest_ready_age",
        "ready scheduled in_flight redelivered dead paused elsewhere expired",
        _delayed_times_and_counters,
        in_memory=False,
    ),
    Kind("worker", "retried", "accepted sent retried refused dead_lettered lost pending"),
    Kind(
        "source", "refilling", "size capacity in_flight fetched duplicates refills empty_refills errors starved_pulls"
    ),
    Kind("scheduler", "steps", "steps paused", _scheduler_sources),
)


def kind_of(stats: object) -> Kind | None:
    """Return the kind of object to which ``stats`` belong, or None."""
    return next((kind for kind in KINDS if hasattr(stats, kind.mark)), None)


def samples_of(kind: Kind, name: str, thing: Any) -> list[Sample]:
    """Return the samples of an object under a name."""
    stats = thing.stats()
    own: list[Sample] = [
        (f"drainq_{kind.name}_{field}", [name], getattr(stats, field)) for field in kind.fields.split()
    ]
    return own + kind.more(name, thing, stats)
