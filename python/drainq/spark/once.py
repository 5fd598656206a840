"""A value that the first caller makes while other callers wait; no lock is held while it is made."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """Makes a value at the first :meth:`get`.

    1. ``make`` is run by one thread at a time, and never again once it has returned.
    2. What it raises goes to its caller alone; a thread that waited tries itself.
    3. A ``make`` that asks for its own value is refused, for it would wait for itself.

    Example:
        >>> once = Once(list)
        >>> once.get() is once.get()
        True
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._changed = threading.Condition()
        self._maker: int | None = None
        self._made: list[T] = []

    def get(self) -> T:
        """Return the value; make it, or wait for it, if it is not there.

        Raises:
            RuntimeError: called by ``make``.
        """
        with self._changed:
            if self._maker == threading.get_ident():
                raise RuntimeError(f"{self._make!r} asks for the value that it is about to make")
            self._changed.wait_for(lambda: self._made or self._maker is None)
            if self._made:
                return self._made[0]
            self._maker = threading.get_ident()
        try:
            value = self._make()
        except BaseException:
            self._end([])
            raise
        self._end([value])
        return value

    @property
    def made(self) -> T | None:
        """The value, if it is there."""
        return self._made[0] if self._made else None

    def _end(self, made: list[T]) -> None:
        with self._changed:
            self._maker, self._made = None, made
            self._changed.notify_all()
