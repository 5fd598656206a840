"""The exceptions of a delayed queue for failures of its database. The database's error is the cause.

A program can catch them without importing a driver. :mod:`drainq.sql.driver_errors` decides which of the two is raised.
"""

from __future__ import annotations

from collections.abc import Sequence

from drainq.errors import DrainqError


class QueueUnavailable(DrainqError):
    """Raised if the database keeps failing for a temporary reason: it is unreachable, full, starting or locked.

    Attributes:
        errors: the error of every try; the last is the ``__cause__``.
    """

    def __init__(self, message: str, errors: Sequence[BaseException] = ()) -> None:
        super().__init__(message)
        self.errors: list[BaseException] = list(errors)


class QueueBroken(DrainqError):
    """Raised if the database refuses for a reason that waiting does not change: a missing table or right, a wrong
    password, a value that it does not accept. The driver's error is the ``__cause__``."""
