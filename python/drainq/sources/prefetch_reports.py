"""The reports of a source: counts errors and passes them on, and notifies listeners of items.

Invariants:
    1. ``report`` and ``tell`` raise nothing: they count a failure of ``on_error`` or a listener, not of a log handler.
    2. Foreign code runs with no lock held.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable

from drainq.sources.prefetch_options import OnError

_Listeners = tuple[Callable[[], object], ...]

_log = logging.getLogger("drainq")


class Reports:
    """Counts errors, passes them on, and calls listeners.

    Args:
        name: of the source, for the log.
        on_error: ``"log"``; ``"raise"``: the next pull raises the error; or a callable that takes it.
        state: the source's condition, which guards the fields here and is notified of news.
        listeners: the first listeners.
    """

    def __init__(
        self,
        name: str,
        on_error: OnError,
        state: threading.Condition,
        listeners: _Listeners = (),
    ) -> None:
        self._name = name
        self._on_error = on_error
        self._state = state
        self.listeners = listeners
        self.errors = 0
        """The number of errors."""
        self.error: BaseException | None = None
        """The error for the next pull."""

    def report(self, error: BaseException) -> None:
        """Count an error and pass it on."""
        self._count()
        if callable(self._on_error):
            try:
                self._on_error(error)
            except BaseException as second:
                self._count()
                self._write(f"on_error itself failed on {type(error).__name__}", second)
        elif self._on_error == "log":
            self._write("refill failed", error)
        else:
            with self._state:
                self.error = error
                self._state.notify_all()

    def take_error(self) -> BaseException | None:
        """Return the error for the next pull, once."""
        with self._state:
            error, self.error = self.error, None
            return error

    def subscribe(self, listener: Callable[[], object]) -> None:
        """Add a listener, unless it was added before."""
        if not callable(listener):
            raise TypeError(f"a listener must be a callable without arguments, got {listener!r}")
        self._change(lambda listeners: listeners if listener in listeners else (*listeners, listener))

    def unsubscribe(self, listener: Callable[[], object]) -> None:
        """Remove a listener."""
        self._change(lambda listeners: tuple(other for other in listeners if other != listener))

    def tell(self) -> None:
        """Wake the waiting threads, and call the listeners."""
        with self._state:
            self._state.notify_all()
            listeners = self.listeners
        for listener in listeners:
            try:
                listener()
            except BaseException as error:
                self._count()
                self._write("a listener raised", error)

    def _change(self, change: Callable[[_Listeners], _Listeners]) -> None:
        """Change the listeners. Start again if another change came first. No lock is held while foreign ``==`` runs."""
        while True:
            before = self.listeners
            after = change(before)
            with self._state:
                if self.listeners is before:
                    self.listeners = after
                    return

    def _count(self) -> None:
        with self._state:
            self.errors += 1

    def _write(self, what: str, error: BaseException) -> None:
        from drainq.sql.error_text import error_text, to_show  # its modules load with the first error

        with contextlib.suppress(BaseException):  # a handler of the log raised; the error has been counted
            _log.error("source %r: %s: %s", self._name, what, error_text(error), exc_info=to_show(error))
