"""Items in a task that no handler takes: an error, unless they were asked for as a count.

A queue that runs for months logs and counts such items. A task computes a result: if rows are missing in it, it is
wrong, and a worker's log is hardly ever read. So the task fails, and its error, which reaches the driver, names the
types.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

from drainq.errors import DrainqError
from drainq.spark.checks import member
from drainq.statistics import BatchQueueStats

_MOST_NAMED = 5


class Unrouted(enum.Enum):
    """What becomes of items that have no handler."""

    FAIL = "fail"
    COUNT = "count"


def unrouted_of(value: str | Unrouted) -> Unrouted:
    """Return what the argument ``unrouted`` asks for.

    Raises:
        ValueError: there is no such word.
    """
    return member(Unrouted, value, "unrouted must be 'fail' (an item without a handler fails the task) or 'count'")


class UnroutedItems(DrainqError):
    """A task had items that no handler takes; its result would have been wrong without a word."""


def check_routed(stats: BatchQueueStats, handlers: Iterable[Any] | None = None) -> None:
    """Raise if items of a queue found no handler.

    Args:
        stats: of a queue that is shut down.
        handlers: the keys that have one, for the message; None: not known.

    Raises:
        UnroutedItems: the message names each type or dispatch key, how many there were, and what to do.
    """
    if not stats.unrouted:
        return
    missing = {key: counts.unrouted for key, counts in stats.per_type.items() if counts.unrouted}
    named = sorted(missing.items(), key=lambda entry: -entry[1])[:_MOST_NAMED]
    listed = ", ".join(f"{count} of {_name(key)}" for key, count in named)
    more = f" and {len(missing) - len(named)} other kinds" if len(missing) > len(named) else ""
    there_are = "" if handlers is None else f" There are handlers for {', '.join(map(_name, handlers)) or 'nothing'}."
    raise UnroutedItems(
        f"{stats.unrouted} items have no handler: {listed}{more}.{there_are} Only the exact type counts, not a base "
        "class (a row of a DataFrame is a tuple). Add handlers, set dispatch_key=, leave these rows out, or pass "
        'unrouted="count" to go on without them.'
    )


def _name(key: Any) -> str:
    if isinstance(key, type):
        return key.__qualname__ if key.__module__ == "builtins" else f"{key.__module__}.{key.__qualname__}"
    return repr(key)
