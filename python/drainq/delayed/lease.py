"""LeaseKeeper: extends a lease while a handler runs.

The keeper checks every sixth of a lease (or quarter of a time limit, if that is shorter), at least twice a second, on a
thread of the process's timer. It extends a lease that has lasted a third of its length, so a lease never passes half
its length while the process lives. A handler that ends before the extension costs no statement. When a second check
sees the same envelope, the keeper releases the prefetched messages that wait for the handler. A handler on a thread
cannot be ended, so after its time limit the keeper takes the handler's messages away.

# Invariant

After :meth:`LeaseKeeper.let_go` returns, no extension of that envelope is running, and none will begin. The same holds
for taking its messages away.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from drainq.delayed.consume_prefetch import Prefetched
from drainq.delayed.envelope import Leased
from drainq.delayed.errors import QueueBroken, QueueUnavailable
from drainq.delayed.storage.records import Held
from drainq.delayed.storage_session import Session
from drainq.errors import ShutDown
from drainq.sql.error_text import to_show
from drainq.timer import Repeat

_log = logging.getLogger("drainq")
_LONGEST_PAUSE = 0.5


class LeaseKeeper:
    """Extends the lease of the envelope whose handler runs. A context manager.

    Args:
        session: the session of the queue.
        time_limit: seconds that a handler may run; None: any time.
        overdue: called when a handler runs longer, with its envelope, which is already revoked.
    """

    def __init__(
        self, session: Session, time_limit: float | None = None, overdue: Callable[[Leased], None] | None = None
    ) -> None:
        self._session = session
        self._time_limit, self._overdue = time_limit, overdue
        self._lease = session.time.acquire_timeout
        self._lock = threading.Lock()
        self._envelope: Leased | None = None
        self._began = self._held_since = 0.0
        self.was_overdue = False
        """Whether the messages of the latest envelope were taken from its handler."""
        self._prefetched: Prefetched | None = None
        self._seen = False  # whether the last check saw this envelope
        self._check = Repeat(self._extend_in_time)

    def hold(self, envelope: Leased, prefetched: Prefetched | None = None) -> None:
        """Begin to keep this envelope's lease, and to watch its prefetch."""
        with self._lock:
            self._prefetched = prefetched
            self._watch(envelope, self._session.clock.now())

    def _watch(self, envelope: Leased, now: float) -> None:
        self._envelope, self._began, self._held_since = envelope, now, now
        self.was_overdue = self._seen = False

    def follow(self, take: Callable[[], Leased | None], now: float) -> Leased | None:
        """Take the next envelope by ``take``, and from ``now`` on keep its lease in place of the last envelope's.

        Returns None, and changes nothing, if ``take`` returns None, if a check is running (it may wait for the
        database), or if the messages were taken from the handler.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            envelope = None if self._envelope is None else take()
            if envelope is not None:
                self._watch(envelope, now)
            return envelope
        finally:
            self._lock.release()

    def let_go(self) -> None:
        """Stop keeping the lease."""
        with self._lock:
            self._envelope = self._prefetched = None

    def cut_off(self) -> Held | None:
        """Stop keeping the lease. If the handler still runs, return its messages, to be released."""
        with self._lock:
            if self._prefetched is not None:
                self._settle(self._prefetched)
            envelope, self._envelope = self._envelope, None
            if envelope is None or envelope._settled:
                return None
            envelope._settled = envelope.revoked = True
            return envelope._held()

    def __enter__(self) -> LeaseKeeper:
        self._check.wake_after(self._pause)
        return self

    def __exit__(self, *_: object) -> None:
        self._check.stop()

    @property
    def _pause(self) -> float:
        return min(self._lease / 6, _LONGEST_PAUSE, (self._time_limit or self._lease) / 4)

    def _extend_in_time(self) -> float:
        with self._lock:
            if self._prefetched is not None and self._seen:
                self._settle(self._prefetched)
            self._seen = True
            self._end_or_extend()
        return self._pause

    def _end_or_extend(self) -> None:
        envelope, now = self._envelope, self._session.clock.now()
        if envelope is None:
            return
        if self._time_limit is not None and now - self._began >= self._time_limit and not envelope._settled:
            self._envelope, self.was_overdue = None, True
            envelope._settled = envelope.revoked = True
            if self._overdue is not None:
                self._overdue(envelope)
        elif now - self._held_since >= self._lease / 3:
            self._extend(envelope)

    def _settle(self, prefetched: Prefetched) -> None:
        """Release the messages that wait behind a slow handler, for other consumers."""
        try:
            self._session.call_apart(prefetched.settle)
        except ShutDown:
            return
        except (QueueUnavailable, QueueBroken) as error:
            self._session.warn("could not give back what waits behind a slow handler (%s); trying again", error)
            return
        self._prefetched = None

    def _extend(self, envelope: Leased) -> None:
        if envelope._settled:
            return
        begun = self._session.clock.now()  # the lease counts from the start of a try, which may take long
        try:
            kept = envelope.extend(self._lease)
        except ShutDown:
            return
        except QueueUnavailable as error:
            self._session.warn("could not extend a lease (%s); its message may be delivered twice", error)
            return
        except Exception as error:
            shown = to_show(error, values=self._session.log_values)
            _log.error("could not extend the lease of %s; it may be delivered twice", envelope.shown(), exc_info=shown)
            return
        self._held_since = begun
        if not kept:
            self._envelope, envelope.revoked = None, True
            _log.warning("%s was updated or taken over while its handler runs", envelope.shown())
