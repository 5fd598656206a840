"""What a caller of a delayed queue can run into beside a bad argument: the database, with its own error as the cause.

No program needs to import a driver to catch these; which of the two an error becomes is decided in
:mod:`drainq.sql.driver_errors`.
"""

from __future__ import annotations

from collections.abc import Sequence

from drainq.errors import DrainqError


class QueueUnavailable(DrainqError):
    """The database went on failing for a reason that passes: it is away, full, starting, locked.

    Attributes:
        errors: the error of every try; the last is the ``__cause__``.
    """

    def __init__(self, message: str, errors: Sequence[BaseException] = ()) -> None:
        super().__init__(message)
        self.errors = list(errors)


class QueueBroken(DrainqError):
    """The database refused for a reason that no waiting changes: a missing table or right, a wrong password, a value
    that it does not take. The driver's error is the ``__cause__``."""
