"""Worker resources: connections and pools that a worker process keeps from task to task.

Spark uses a Python process for many tasks. A minute after the last task Spark kills the process, without ``atexit`` or
a catchable signal. So drainq closes a resource before that, once it was idle for some seconds.

# Invariants

1. A process keeps one resource for a key. All users share it, except the last users of one that ``check`` refused.
2. ``factory``, ``check`` and ``close`` run under no lock. A factory that raises leaves no resource.
3. A resource is closed once: after ``idle_close`` seconds without a user, or after ``check`` refused it and its last
   user has left.
4. A forked child has none of its parent's resources, and does not close them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, TypeVar

from drainq.arguments import Seconds, seconds
from drainq.callables import check_callable
from drainq.delivery.sink_contract import error_text, to_show
from drainq.fork import leave_to_parent, renew_in_child
from drainq.timer import SHARED, Alarm

T = TypeVar("T")


class Once(Generic[T]):
    """Makes a value at the first :meth:`get`.

    1. One thread at a time runs ``make``, and never again once it has returned.
    2. An exception of ``make`` goes only to its caller. A thread that waited then tries itself.
    3. A ``make`` that calls ``get`` is refused, because it would wait for itself.

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
        """Return the value. If there is none, make it or wait for it.

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
        """The value, or None before it is made."""
        return self._made[0] if self._made else None

    def _end(self, made: list[T]) -> None:
        with self._changed:
            self._maker, self._made = None, made
            self._changed.notify_all()


_log = logging.getLogger("drainq")
R = TypeVar("R")


class _Kept(Generic[R]):
    """A resource, the number of its users, and the alarm that closes it."""

    def __init__(self, factory: Callable[[], R], close: Callable[[R], object] | None) -> None:
        self.resource = Once(factory)
        self.close = close
        self.process = os.getpid()
        self.users = 0
        self.alarm: Alarm | None = None

    def end(self) -> None:
        """Close the resource. Log the exception if that fails."""
        resource = self.resource.made
        if resource is None or self.close is None or self.process != os.getpid():
            return
        try:
            self.close(resource)
        except Exception as error:
            _log.error("a worker resource could not be closed", exc_info=to_show(error))


class _Resources:
    """The resources of this process."""

    def __init__(self) -> None:
        self._renew()
        renew_in_child(self)

    def _renew(self) -> None:
        self.lock = threading.RLock()
        self.kept: dict[Hashable, _Kept[Any]] = {}

    def _renew_in_child(self) -> None:
        leave_to_parent(*self.kept.values())
        self._renew()

    def take(self, key: Hashable, factory: Callable[[], Any], close: Callable[[Any], object] | None) -> _Kept[Any]:
        """Add a user to the resource of a key. The resource may not be made yet."""
        with self.lock:
            kept = self.kept.get(key)
            if kept is None:
                kept = self.kept[key] = _Kept(factory, close)
            kept.users += 1
            if kept.alarm is not None:
                kept.alarm.cancel()
                kept.alarm = None
            return kept

    def give_back(self, key: Hashable, kept: _Kept[Any], idle_close: float) -> None:
        """Remove a user. The last user sets the alarm, or closes a retired resource."""
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

    def retire(self, key: Hashable, kept: _Kept[Any]) -> None:
        """Remove a resource from the registry. Its last user closes it."""
        with self.lock:
            if self.kept.get(key) is kept:
                del self.kept[key]

    def _idle(self, key: Hashable, kept: _Kept[Any]) -> None:
        with self.lock:
            if kept.users or self.kept.get(key) is not kept:
                return
            del self.kept[key]
        kept.end()


_resources = _Resources()


@contextlib.contextmanager
def worker_resource(
    key: Hashable,
    factory: Callable[[], R],
    close: Callable[[R], object] | None = None,
    *,
    idle_close: Seconds = 30.0,
    check: Callable[[R], object] | None = None,
) -> Iterator[R]:
    """Use a resource that the worker process keeps from task to task: a context manager.

    Args:
        key: names the resource in this process: anything hashable, such as a string. Threads with the same key
            share it, so the key of a connection for one thread contains the thread.
        factory: makes the resource, if there is none. It must not return None.
        close: closes the resource, on a thread of drainq, or of its last user if ``check`` refused the resource.
        idle_close: seconds without a user after which the resource is closed. Spark ends an idle worker after 60.
        check: ``check(resource)`` is called before a resource is used again. If it returns a false value or raises,
            the resource is closed and a new one is made.
    Raises:
        TypeError: ``key`` is not hashable; ``factory`` returned None; ``factory``, ``close`` or
            ``check`` cannot be called.
        ValueError: ``idle_close`` is negative or not finite.
        BaseException: the error of ``factory``. The next caller tries again.

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
    try:
        hash(key)
    except TypeError:
        raise TypeError(f"key must be hashable, such as a string or a tuple of strings, got {key!r}") from None
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


def _taken(
    key: Hashable,
    factory: Callable[[], Any],
    close: Callable[[Any], object] | None,
    check: Callable[[Any], object] | None,
    idle_close: float,
) -> _Kept[Any]:
    """Take a checked resource, with this caller among its users."""
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
