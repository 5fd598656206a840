"""Watch: publishes the counters of a queue, a worker or a source under a name.

Multi-queues and set queues are native, and the endpoint reads them at each scrape. Delayed queues, workers, prefetching
sources and schedulers are written in Python. So a thread of :mod:`drainq.timer` calls their ``stats()`` every few
seconds and publishes the samples, which the endpoint serves until the next ones.

# Invariants

1. No ``stats()`` is called by the endpoint's thread, or under a lock.
2. While a handler holds the GIL the published samples stay as they are, and ``drainq_sample_age_seconds`` grows.
3. A forked child watches no object that is written in Python. Call :func:`watch` in it again.
"""

from __future__ import annotations

import logging
import weakref
from typing import Any

from drainq._native import observe_native, publish_samples, unobserve_native, withdraw_samples
from drainq.arguments import Seconds, seconds, seconds_or_none
from drainq.fork import renew_in_child
from drainq.monitoring.samples import Kind, kind_of, samples_of
from drainq.threads import ClosedByBlock
from drainq.timer import Repeat

_log = logging.getLogger("drainq")


class WatchedObject(ClosedByBlock):
    """An object whose counters are published. Made by :func:`watch`.

    Attributes:
        name: the name in its samples.
    """

    def __init__(self, thing: Any, name: str, kind: Kind | None, interval: float) -> None:
        self.name: str = name
        self._kind = kind
        self._interval = interval
        self._thing = weakref.ref(thing)
        self._repeat: Repeat | None = None
        if kind is not None:
            _watches[kind.name, name] = self
            self._repeat = Repeat(self._turn)
            renew_in_child(self)

    def sample(self) -> None:
        """Publish the current counters before the interval's end. A native queue does not need this.

        An exception of ``stats()`` is logged and counted in ``drainq_sample_errors_total``.
        """
        thing = self._thing()
        if self._kind is None or thing is None:
            return
        key, samples = (self._kind.name, self.name), None
        try:
            samples = samples_of(self._kind, self.name, thing)
        except Exception:
            _log.warning("the counters of %s %r could not be read", self._kind.name, self.name, exc_info=True)
        if _watches.get(key) is self:
            publish_samples(*key, samples)
        if key not in _watches:  # it was closed meanwhile
            withdraw_samples(*key)

    def close(self, timeout: Seconds | None = None) -> bool:
        """Stop publishing the object. Return False if its ``stats()`` was still running after ``timeout`` seconds."""
        timeout, ended = seconds_or_none("timeout", timeout), True
        if self._kind is None:
            thing = self._thing()
            if thing is not None:
                unobserve_native(thing)
        elif _watches.get((self._kind.name, self.name)) is self:
            del _watches[self._kind.name, self.name]
            if self._repeat is not None:
                ended = self._repeat.stop(timeout)
            withdraw_samples(self._kind.name, self.name)
        return ended

    def _turn(self) -> float | None:
        if self._thing() is None:
            self.close()
            return None
        self.sample()
        return self._interval

    def _begin(self) -> None:
        self.sample()
        if self._repeat is not None:
            self._repeat.wake_after(self._interval)

    def _renew_in_child(self) -> None:
        if self._kind is not None and _watches.pop((self._kind.name, self.name), None) is self:
            withdraw_samples(self._kind.name, self.name)

    def __repr__(self) -> str:
        return f"<WatchedObject {self.name!r}>"


_watches: dict[tuple[str, str], WatchedObject] = {}


def sample_what_is_in_memory() -> None:
    """Publish the counters of the watched objects whose ``stats()`` wait for nothing."""
    for watched in [*_watches.values()]:
        if watched._kind is not None and watched._kind.in_memory:
            watched.sample()


def watch(thing: Any, name: str | None = None, *, interval: Seconds = 5.0) -> WatchedObject:
    """Publish ``thing``'s counters under a name, until it is collected or :meth:`WatchedObject.close` is called.

    A batch queue is always published under its own name. For a batch queue, this function changes the name.

    Args:
        thing: a ``MultiQueue``, ``SetQueue``, ``DelayedQueue``, ``PrefetchSource`` or ``SourceScheduler``, a worker or
            an exporter; or a ``BatchQueue``. It is not kept alive.
        name: the value of the label ``queue``, ``worker``, ``source`` or ``scheduler``; ``None``: its ``name``. A
            number is added to a name that is taken.
        interval: seconds between two calls of ``stats()``, for an object that is written in Python; more than 0.
    Returns:
        The watched object, with its name and ``close()``.
    Raises:
        TypeError: ``thing`` is none of these.
        ValueError: ``name`` is empty or contains a NUL character, or is missing for an object that has none, or
            ``interval`` is not above 0.

    Example:
        >>> from urllib.request import urlopen
        >>> from drainq import MultiQueue
        >>> from drainq.monitoring import MetricsServer, watch
        >>> queue = MultiQueue()
        >>> queue.add_sub_queue("mail").put("hello")
        True
        >>> _ = watch(queue, "outbox")
        >>> with MetricsServer(port=0) as server:
        ...     text = urlopen(server.url).read().decode()
        >>> 'drainq_multi_sub_queue_depth{queue="outbox",sub_queue="mail"} 1' in text
        True
    """
    if name is None:
        name = getattr(thing, "name", None)
    if not isinstance(name, str) or not name or "\0" in name:
        raise ValueError(f"name must be a string with at least 1 character, and none of them NUL, got {name!r}")
    pause = seconds("interval", interval, positive=True)
    given = observe_native(thing, name)
    if given is not None:
        return WatchedObject(thing, given, None, pause)
    kind = kind_of(thing.stats()) if callable(getattr(thing, "stats", None)) else None
    if kind is None:
        raise TypeError(
            "thing must be a queue, a source, a scheduler, a worker or an exporter of drainq's, with a method stats(); "
            f"got {thing!r}"
        )
    watched = WatchedObject(thing, _free_name(kind.name, name), kind, pause)
    watched._begin()
    return watched


def _free_name(kind: str, name: str) -> str:
    free, number = name, 1
    while (other := _watches.get((kind, free))) is not None:
        if other._thing() is None:
            other.close()
            break
        number += 1
        free = f"{name}-{number}"
    return free
