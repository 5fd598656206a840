"""Items of a task without a handler: an error, or a count.

A queue that runs for months logs and counts such items. But a task computes a result, which is wrong if rows are
missing, and few people read a worker's log. So the task fails. The driver gets the error, which names the types.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

from drainq.arguments import member
from drainq.errors import DrainqError
from drainq.statistics import BatchQueueStats

_MOST_NAMED = 5


class Unrouted(enum.Enum):
    """The action for items without a handler."""

    FAIL = "fail"
    COUNT = "count"


def unrouted_of(value: str | Unrouted) -> Unrouted:
    """Return the action for the argument ``unrouted``.

    Raises:
        ValueError: there is no such word.
    """
    return member(Unrouted, value, "unrouted must be 'fail' (an item without a handler fails the task) or 'count'")


class UnroutedItems(DrainqError):
    """A task had items without a handler, so its result would have been wrong."""


def check_routed(stats: BatchQueueStats, handlers: Iterable[Any] | None = None) -> None:
    """Raise an error if a queue had items without a handler.

    Args:
        stats: a shut-down queue's counters.
        handlers: the keys with a handler, for the message; None if they are unknown.

    Raises:
        UnroutedItems: the message names the types or dispatch keys, their numbers, and the remedies.
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
