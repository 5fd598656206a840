"""What a forked child does with the Python objects that it got from its parent: one contract, kept in one place.

A fork copies one thread. So in the child every other thread is missing, a lock that one of them held stays taken, a
connection is shared with the parent, and each item that waited in the parent is there a second time. The contract of
all of drainq's objects is:

1. In the child an object starts empty, its counters at zero, and it works: with locks, threads and connections of
   its own. The parent keeps its items and notices nothing; no item is delivered by both.
2. Settings stay, and so does what was said for good, such as ``close()``.
3. An object enters the registry by :func:`renew_in_child` and is held weakly; in the child, on the only thread there
   is, its ``_renew_in_child()`` is called once. That method takes no lock that existed before the fork.
4. What must neither be used nor ended in the child (a connection, a generator that holds one) is handed to
   :func:`leave_to_parent`: it is kept for ever, so that its destructor cannot speak on the parent's behalf.

The native classes register themselves; ``os.register_at_fork`` is below both. Where a platform has no fork, nothing
here has anything to do.

Source: ``threading._after_fork`` and ``logging._after_at_fork_child_reinit_locks`` in CPython, which renew locks alike.
"""

from __future__ import annotations

import itertools
import os
import weakref
from typing import Any, Protocol

from drainq.logger import log as _log


class Forkable(Protocol):
    """What the registry holds."""

    def _renew_in_child(self) -> None:
        """Start empty, with locks, threads and connections of this process."""


_numbers = itertools.count()
_registry: dict[int, weakref.ref[Forkable]] = {}  # in the order of registration; plain, so that no lock can be taken
_left_to_parent: list[object] = []


def renew_in_child(thing: Forkable) -> None:
    """Have ``thing._renew_in_child()`` called in every child that this process forks, for as long as it lives.

    Args:
        thing: an object that can be referenced weakly; it is not kept alive.
    """
    number = next(_numbers)
    _registry[number] = weakref.ref(thing, lambda _, forget=_registry.pop: forget(number, None))  # type: ignore[misc]


def leave_to_parent(*things: Any) -> None:
    """Keep what belongs to the parent process, so that it is never ended in this one; call it in the child."""
    _left_to_parent.extend(thing for thing in things if thing is not None)


def _renew_all() -> None:
    for reference in list(_registry.values()):
        thing = reference()
        if thing is not None:
            try:
                thing._renew_in_child()
            except Exception:  # one object that cannot be renewed must not keep the others from it
                _log.exception("after a fork: %s could not be renewed", type(thing).__name__)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
