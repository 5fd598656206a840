"""What can go wrong, each with a name of its own.

A bad value is a plain :class:`ValueError` or :class:`TypeError` that shows the value;
the classes here are for what only a queue can run into.
"""

from __future__ import annotations

import sys
import warnings


class DrainqError(RuntimeError):
    """The root of drainq's own errors."""


class DuplicateName(DrainqError):
    """A queue of this name exists; take another name, or ``get`` the one that is there."""


class ModeConflict(DrainqError):
    """A queue is asked to be both: one consumer for everything, and a handler per type."""


class WouldDeadlock(DrainqError):
    """A handler asked its own queue for something that only this handler could make happen."""


class TooManyGroups(DrainqError):
    """A batch would bring more groups than ``max_groups``; nothing of it was added."""


class UnfitItem(DrainqError, TypeError, ValueError):
    """An item cannot be taken for what it is; the text names types, columns and attributes, never values."""


class DrainqWarning(UserWarning):
    """A set-up that works, but not as it was written down."""


def warn(message: str) -> None:
    """Warn with a :class:`DrainqWarning` at the line that called drainq."""
    frame, level = sys._getframe().f_back, 2
    while frame and str(frame.f_globals.get("__name__")).partition(".")[0] == "drainq":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, DrainqWarning, stacklevel=level)


if sys.version_info >= (3, 13):
    from queue import ShutDown
else:

    class ShutDown(Exception):
        """The queue was shut down (``queue.ShutDown`` from Python 3.13 on)."""


class SubQueueRemoved(ShutDown):
    """The sub-queue was taken out of its multi-queue; nothing can be put into it any more."""
