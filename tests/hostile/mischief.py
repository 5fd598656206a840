"""The places at which Python code runs that nobody called: all of them strike.

A strike makes one of the calls that the room offers (``CALLS``), one after the other, and gives the GIL up.
It happens in hashes, comparisons, reprs, conversions, callbacks, ends of objects, log lines and warnings, and,
if asked for, in a signal handler, in other threads all the time, and in the garbage collector.
"""

from __future__ import annotations

import collections
import copy
import gc
import itertools
import logging
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import drainq.statistics  # noqa: F401 - loaded before anything strikes: an import that a signal interrupts is CPython's

PATIENCE = 20.0
"""Seconds after which what is waited for does not come."""

CALLS: list[Callable[[], object]] = []
"""What a strike calls."""

struck: collections.Counter[str] = collections.Counter()
"""How often each kind of place struck."""

errors: list[str] = []
"""What strikes raised. Nobody else would hear of it."""

_inside = threading.local()
_active: set[int] = set()
_next = itertools.count()


def strike(kind: str) -> None:
    """Makes the next call, unless this is within one."""
    if not CALLS or getattr(_inside, "on", False):
        return
    _inside.on = True
    _active.add(threading.get_ident())
    struck[kind] += 1
    try:
        if calls := CALLS[:]:  # read after this thread was marked: see `end_strikes`
            calls[next(_next) % len(calls)]()
        time.sleep(0)
    except BaseException:
        errors.append(traceback.format_exc())
    finally:
        _active.discard(threading.get_ident())
        _inside.on = False


def end_strikes() -> None:
    """Waits until no thread is in a strike; from now on strikes call nothing."""
    CALLS.clear()
    until = time.monotonic() + PATIENCE
    while _active - {threading.get_ident()}:
        assert time.monotonic() < until, "a strike does not end"
        time.sleep(0.0002)


class Name:
    """A hashable value that strikes wherever it can."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __hash__(self) -> int:
        strike("hash")
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        strike("eq")
        return isinstance(other, Name) and self.value == other.value

    def __repr__(self) -> str:
        strike("repr")
        return f"Name({self.value!r})"

    def __del__(self) -> None:
        strike("del")


class Meta(type):
    """Makes classes that strike when they are hashed, compared or shown."""

    def __hash__(cls) -> int:
        strike("hash")
        return id(cls) >> 4

    def __eq__(cls, other: object) -> bool:
        strike("eq")
        return cls is other

    def __repr__(cls) -> str:
        strike("repr")
        return f"<{cls.__name__}>"


class Item(metaclass=Meta):
    """What is put into a queue: strikes when it ends."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __del__(self) -> None:
        strike("del")


class Other(Item):
    """Another type."""


class Number:
    """A number only if asked."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __index__(self) -> int:
        strike("index")
        return int(self.value)

    def __float__(self) -> float:
        strike("index")
        return float(self.value)

    def __repr__(self) -> str:
        strike("repr")
        return str(self.value)


class Text(str):
    """A name for a queue."""

    def __hash__(self) -> int:
        strike("hash")
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        strike("eq")
        return str.__eq__(self, other)

    def __repr__(self) -> str:
        strike("repr")
        return str.__repr__(self)


class Callback(Name):
    """A callable that strikes before and after, and when anybody looks at it."""

    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__(call)

    def __getattribute__(self, name: str) -> Any:
        strike("getattr")
        return super().__getattribute__(name)

    def __call__(self, *args: Any) -> Any:
        strike("call")
        try:
            return self.value(*args)  # type: ignore[operator]
        finally:
            strike("call")


class Consumer:
    """An object with ``consume`` and ``on_idle``."""

    def __init__(self, call: Callable[[list[Any]], object]) -> None:
        self.consume = Callback(call)

    def on_idle(self) -> None:
        strike("idle")

    def __del__(self) -> None:
        strike("del")


class Trash:
    """Something for the garbage collector to find."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        strike("collector")


def many(items: list[Any]) -> Iterator[Any]:
    """An iterator that strikes between two items."""
    for item in items:
        strike("next")
        yield item


class _Log(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        record.getMessage()
        strike("log")


@contextmanager
def loose(kinds: set[str]) -> Iterator[None]:
    """Lets ``signals``, ``threads`` and ``collector`` strike too, as far as they are named."""
    logger = logging.getLogger("drainq")
    logger.addHandler(_Log())
    logger.propagate = False
    warnings.showwarning = lambda *_args, **_kwargs: strike("warning")
    over = threading.Event()
    threads: list[threading.Thread] = []
    if "threads" in kinds:
        sys.setswitchinterval(1e-6)

        def bother() -> None:
            while not over.is_set():
                strike("thread")

        threads = [threading.Thread(target=bother, name=f"bother-{number}") for number in range(2)]
        for thread in threads:
            thread.start()
    if "collector" in kinds:
        gc.set_threshold(5, 2, 2)
    if "signals" in kinds:

        def interrupt(*_: object) -> None:
            Trash()
            strike("signal")
            if not over.is_set():
                signal.setitimer(signal.ITIMER_REAL, 2e-4)

        signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 2e-4)
    try:
        yield
    finally:
        over.set()
        signal.setitimer(signal.ITIMER_REAL, 0)
        for thread in threads:
            thread.join(PATIENCE)


def stays(value: object) -> None:
    """Asserts that it is not copied, nor sent anywhere."""
    try:
        copy.copy(value)
    except TypeError:
        return
    raise AssertionError(f"{value!r} is not copied")
