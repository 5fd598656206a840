"""Forks: resets drainq's Python objects in a forked child.

A fork copies one thread. So in the child all other threads are missing, their locks stay locked, connections are shared
with the parent, and each waiting item exists twice. The contract of all of drainq's objects is:

1. In the child an object starts empty, with counters at zero and with its own locks, threads and connections. The
   parent keeps its items and is not affected. No item is delivered by both processes.
2. Settings stay. A closed object stays closed.
3. :func:`renew_in_child` registers an object, which is held weakly. In the child its ``_renew_in_child()`` is called
   once, on the only thread. That method takes no lock that existed before the fork.
4. :func:`leave_to_parent` keeps for ever the objects that the child must neither use nor close (a connection, or a
   generator that holds a connection), so that their destructors never run in the child.

The native classes register themselves. Both registries use ``os.register_at_fork``. On a platform without forks this
file does nothing.

Source: ``threading._after_fork`` and ``logging._after_at_fork_child_reinit_locks`` in CPython, which renew locks in the
same way.
"""

from __future__ import annotations

import itertools
import os
import weakref
from typing import Any, Protocol

from drainq.logger import log as _log


class Forkable(Protocol):
    """The interface of a registered object."""

    def _renew_in_child(self) -> None:
        """Start empty, with locks, threads and connections of this process."""


_numbers = itertools.count()
_registry: dict[int, weakref.ref[Forkable]] = {}  # in the order of registration; a plain dict takes no lock
_left_to_parent: list[object] = []


def renew_in_child(thing: Forkable) -> None:
    """Call ``thing._renew_in_child()`` in every child that this process forks, as long as the object lives.

    Args:
        thing: an object that can be referenced weakly. It is not kept alive.
    """
    number = next(_numbers)
    _registry[number] = weakref.ref(thing, lambda _, forget=_registry.pop: forget(number, None))  # type: ignore[misc]


def leave_to_parent(*things: Any) -> None:
    """Keep objects of the parent process for ever, so that the child never closes them. Call this in the child."""
    _left_to_parent.extend(thing for thing in things if thing is not None)


def _renew_all() -> None:
    for reference in list(_registry.values()):
        thing = reference()
        if thing is not None:
            try:
                thing._renew_in_child()
            except Exception:  # an object that fails must not keep the others from being renewed
                _log.exception("after a fork: %s could not be renewed", type(thing).__name__)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
