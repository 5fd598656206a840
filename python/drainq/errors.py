"""The exceptions of drainq.

A bad argument is a plain :class:`ValueError` or :class:`TypeError` that shows the value. The classes here are for
failures that only a queue has.
"""

from __future__ import annotations

import sys
import warnings


class DrainqError(RuntimeError):
    """The base class of drainq's errors."""


class DuplicateName(DrainqError):
    """Raised if a queue of this name exists. Use another name, or ``get`` the existing queue."""


class ModeConflict(DrainqError):
    """Raised if one configuration of a named queue has a consumer, and the other has handlers for types."""


class WouldDeadlock(DrainqError):
    """Raised if a handler waits for an event that can only come after the handler has returned."""


class TooManyGroups(DrainqError):
    """Raised if a batch would bring the number of groups above ``max_groups``. No row of the batch was added."""


class UnfitItem(DrainqError, TypeError, ValueError):
    """Raised if an item's type or values cannot be handled. The text names types, columns and attributes, no values."""


class DrainqWarning(UserWarning):
    """Warns of a configuration that works differently from what it states."""


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
        """Raised if the queue was shut down. This is ``queue.ShutDown`` from Python 3.13 on."""


class SubQueueRemoved(ShutDown):
    """Raised if the sub-queue was removed from its multi-queue, so that no item can be put into it."""
