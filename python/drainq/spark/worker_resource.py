"""What a worker process keeps from task to task: connections and pools, nothing that belongs to a task.

Spark uses a Python process for many tasks and ends it without a word a minute after the last: no ``atexit`` runs, no
signal comes. So a resource closes by itself before that.

# Invariants

1. There is one resource for a key in a process, and all who ask at the same time share it.
2. ``factory``, ``check`` and ``close`` run under no lock; a factory that raises leaves nothing behind.
3. A resource is closed once: when nothing has used it for ``idle_close`` seconds, or when ``check`` refuses it; never
   while it has a user.
4. A forked child has none of its parent's resources, and does not close them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeAlias, TypeVar

from drainq.arguments import Seconds, seconds
from drainq.callables import check_callable
from drainq.delivery.sink_contract import error_text, to_show
from drainq.fork import leave_to_parent, renew_in_child
from drainq.timer import SHARED, Alarm

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


_log = logging.getLogger("drainq")
R = TypeVar("R")
Key: TypeAlias = "str | bytes | int | tuple[Key, ...]"
"""Types without code of their own in ``__hash__`` and ``__eq__``: a key is compared under a lock."""


class _Kept(Generic[R]):
    """A resource, how many use it, and the alarm that closes it."""

    def __init__(self, factory: Callable[[], R], close: Callable[[R], object] | None) -> None:
        self.resource = Once(factory)
        self.close = close
        self.process = os.getpid()
        self.users = 0
        self.alarm: Alarm | None = None

    def end(self) -> None:
        """Close it; what that raises is logged."""
        resource = self.resource.made
        if resource is None or self.close is None or self.process != os.getpid():
            return
        try:
            self.close(resource)
        except Exception as error:
            _log.error("a worker resource could not be closed", exc_info=to_show(error))


class _Resources:
    """All of this process."""

    def __init__(self) -> None:
        self._renew()
        renew_in_child(self)

    def _renew(self) -> None:
        self.lock = threading.RLock()
        self.kept: dict[Key, _Kept[Any]] = {}

    def _renew_in_child(self) -> None:
        leave_to_parent(*self.kept.values())
        self._renew()

    def take(self, key: Key, factory: Callable[[], Any], close: Callable[[Any], object] | None) -> _Kept[Any]:
        """The resource of a key, with one user more; it may still have to be made."""
        with self.lock:
            kept = self.kept.get(key)
            if kept is None:
                kept = self.kept[key] = _Kept(factory, close)
            kept.users += 1
            if kept.alarm is not None:
                kept.alarm.cancel()
                kept.alarm = None
            return kept

    def give_back(self, key: Key, kept: _Kept[Any], idle_close: float) -> None:
        """One user less; the last one sets the alarm, or ends what is not to be used any more."""
        with self.lock:
            kept.users -= 1
            last = kept.users == 0
            if last and self.kept.get(key) is kept and kept.resource.made is not None:
                kept.alarm = SHARED.after(idle_close, lambda: self._idle(key, kept))
                return
            if last and self.kept.get(key) is kept:
                del self.kept[key]  # its factory raised
        if last:
            kept.end()

    def retire(self, key: Key, kept: _Kept[Any]) -> None:
        """Take it out of the registry; its last user ends it."""
        with self.lock:
            if self.kept.get(key) is kept:
                del self.kept[key]

    def _idle(self, key: Key, kept: _Kept[Any]) -> None:
        with self.lock:
            if kept.users or self.kept.get(key) is not kept:
                return
            del self.kept[key]
        kept.end()


_resources = _Resources()


@contextlib.contextmanager
def worker_resource(
    key: Key,
    factory: Callable[[], R],
    close: Callable[[R], object] | None = None,
    *,
    idle_close: Seconds = 30.0,
    check: Callable[[R], object] | None = None,
) -> Iterator[R]:
    """Use a resource that the worker process keeps from task to task; a context manager around it.

    Args:
        key: names it in this process: a string, bytes, a number, or a tuple of these. The same key from two threads is
            the same resource; a connection that only one thread may use has the thread in its key.
        factory: makes it, when there is none; not None.
        close: ends it, on a thread of drainq's; None: nothing is to be done.
        idle_close: seconds without a user after which it is closed. Spark ends an idle worker after 60.
        check: ``check(resource)`` is called before a resource is used again; a false answer, or an exception, has it
            closed and a new one made.
    Raises:
        TypeError: ``key`` is of another type; ``factory`` returned None; ``factory``, ``close`` or
            ``check`` cannot be called.
        ValueError: ``idle_close`` is negative or not finite.
        BaseException: what ``factory`` raised; the next caller tries again.

    Example:
        >>> import sqlite3
        >>> def connect():
        ...     return sqlite3.connect(":memory:", check_same_thread=False)
        >>> with worker_resource("db", connect, sqlite3.Connection.close) as first:
        ...     with worker_resource("db", connect, sqlite3.Connection.close) as second:
        ...         first is second
        True

    Source: the advice of Spark's streaming guide to keep connections in a lazily made pool of the worker.
    """
    _check_key(key, key)
    check_callable("factory", factory)
    if close is not None:
        check_callable("close", close, "resource")
    if check is not None:
        check_callable("check", check, "resource")
    kept_for = seconds("idle_close", idle_close)
    kept = _taken(key, factory, close, check, kept_for)
    try:
        yield kept.resource.get()
    finally:
        _resources.give_back(key, kept, kept_for)


def _check_key(part: Any, key: Any) -> None:
    if type(part) is tuple:
        for inner in part:
            _check_key(inner, key)
    elif type(part) not in (str, bytes, int):
        raise TypeError(f"key must be a string, bytes, a whole number or a tuple of these, got {key!r}")


def _taken(
    key: Key,
    factory: Callable[[], Any],
    close: Callable[[Any], object] | None,
    check: Callable[[Any], object] | None,
    idle_close: float,
) -> _Kept[Any]:
    """A resource that is good, with this caller among its users."""
    while True:
        kept = _resources.take(key, factory, close)
        try:
            used_before = kept.resource.made is not None
            resource = kept.resource.get()
            if resource is None:
                raise TypeError(f"factory {factory!r} returned None, which is no resource")
            if not used_before or check is None or _passes(check, resource):
                return kept
            _resources.retire(key, kept)
        except BaseException:
            _resources.give_back(key, kept, idle_close)
            raise
        _resources.give_back(key, kept, idle_close)


def _passes(check: Callable[[Any], object], resource: Any) -> bool:
    try:
        return bool(check(resource))
    except Exception as error:
        _log.info("a worker resource is made anew, its check raised %s", error_text(error))
        return False
