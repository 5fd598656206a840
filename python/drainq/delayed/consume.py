"""The loop that passes messages to a handler.

One statement acknowledges a message and fetches the next, so a message costs one round trip and one commit. If the
handler is quick, several messages share them (see :mod:`drainq.delayed.consume_prefetch`).

# Invariants

1. ``done`` holds the messages that were handled and not yet acknowledged; they leave it only after the database has
   acknowledged them.
2. Every fetched message is acknowledged, released or buried, even if the loop is stopped or interrupted. If the
   database could not record that, the message is delivered again when its lease ends.
3. A passing failure of the database never ends the loop. The loop itself tries again, once in each step, so that it
   checks ``stop`` in between. Only QueueBroken ends it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from drainq.arguments import whole
from drainq.backoff import Tries
from drainq.callables import check_answer, check_callable
from drainq.delayed.consume_prefetch import Pace, Prefetched, report_lost
from drainq.delayed.envelope import AckEnvelope
from drainq.delayed.errors import QueueBroken, QueueUnavailable
from drainq.delayed.lease import LeaseKeeper
from drainq.delayed.message import from_ms
from drainq.delayed.storage.records import Fetched, Held, Row
from drainq.delayed.storage_session import Session
from drainq.errors import ShutDown
from drainq.sql.error_text import error_text, to_show

_log = logging.getLogger("drainq")
_STOP_CHECK = 0.1
"""Seconds between two checks of ``stop`` while there is nothing to do."""
_LONGEST_OUTAGE_PAUSE = 1.0
"""The most seconds between two tries while the database is away."""


def consume(
    session: Session,
    handler: Callable[[AckEnvelope[Any]], object],
    *,
    batch_size: int,
    stop: Any,
    max_attempts: int | None,
    max_in_flight: int | Mapping[str, int] | None = None,
    prefetch: int,
) -> int:
    """Run the loop; see :meth:`drainq.delayed.DelayedQueue.consume`."""
    prefetch = whole("prefetch", prefetch, least=1)
    batch_size = whole("batch_size", batch_size, least=1)
    if max_attempts is not None:
        max_attempts = whole("max_attempts", max_attempts, least=1)
    limits = _limits(max_in_flight)
    check_callable("handler", handler, "envelope")
    if stop is not None and not callable(getattr(stop, "is_set", None)):
        raise TypeError(f"stop must have is_set(), as threading.Event has, got {stop!r}")
    with LeaseKeeper(session) as keeper:
        return _Loop(session, handler, batch_size, stop, max_attempts, limits, keeper, prefetch).run()


def _limits(max_in_flight: int | Mapping[str, int] | None) -> dict[str, int]:
    """Return the most messages in flight, by key prefix."""
    if max_in_flight is None:
        return {}
    limits = dict(max_in_flight) if isinstance(max_in_flight, Mapping) else {"": max_in_flight}
    for prefix, most in limits.items():
        if not isinstance(prefix, str):
            raise TypeError(f"max_in_flight must map key prefixes, which are texts, to numbers, got {prefix!r}")
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            where = f" for the prefix {prefix!r}" if prefix else ""
            raise ValueError(f"max_in_flight must be a whole number of at least 1, or None, got {most!r}{where}")
    return limits


class _Loop:
    def __init__(
        self,
        session: Session,
        handler: Callable[[AckEnvelope[Any]], object],
        batch_size: int,
        stop: Any,
        max_attempts: int | None,
        limits: dict[str, int],
        keeper: LeaseKeeper,
        prefetch: int,
    ) -> None:
        self._session = session
        self._handler = handler
        self._batch_size = batch_size
        self._stop = stop
        self._limits = limits
        self._keeper = keeper
        self._done: Held | None = None
        self._handled = 0
        self._tries = Tries(session.retry.backoff)
        retries = session.retry.max_retries
        self._max_attempts = max_attempts or session.max_attempts or (None if retries is None else retries + 1)
        # With one attempt only, a message whose delivery was spoilt while it waited would become a dead letter.
        alone = batch_size > 1 or bool(limits) or self._max_attempts == 1 or not session.storage.worth_prefetching
        self._pace = Pace(1 if alone else prefetch)

    def run(self) -> int:
        try:
            while not self._stopped():
                self._step()
        except ShutDown:
            pass  # the queue was closed; a handler's own ShutDown is an error of the handler
        finally:
            self._flush()
        return self._handled

    def _step(self) -> None:
        session = self._session
        noted = session.wakeup.count()
        rows: list[Row] = []
        try:
            fetched, lock = self._fetch()
            rows, payloads = session.deliverable(fetched.rows, lock)
            self._tries.failures = 0
        except QueueUnavailable as error:
            pause = min(self._tries.failed() or 0.0, _LONGEST_OUTAGE_PAUSE)
            why = error_text(error.__cause__, values=session.log_values)
            session.warn("consume of delayed queue %r waits for its database (%s)", session.name, why)
            self._sleep(noted, pause)
            return
        if len(rows) == 1 or (rows and self._batch_size > 1):
            self._handle(rows, payloads, lock)
        elif rows:
            self._one_by_one(rows, payloads, lock)
        elif not fetched.rows:
            self._sleep(noted, session.pause_until(fetched.next_due))

    def _fetch(self) -> tuple[Fetched, str]:
        """Acknowledge the handled messages and take the next ones, in one round trip."""
        session = self._session
        done = self._done
        fetched, lock = session.take_once(done, max(self._batch_size, self._pace.size()), self._limits)
        self._done = None
        if done is not None:
            report_lost(fetched.acked, done)
            if self._limits:
                session.wakeup.wake()  # there is room for another consumer's message
        return fetched, lock

    def _one_by_one(self, rows: list[Row], payloads: list[Any], lock: str) -> None:
        """Handle messages of one fetch, each by itself."""
        session = self._session
        if any(row.attempts > 1 for row in rows):
            self._pace.disturbed()
            self._give_back(Held(lock, tuple(row.id for row in rows[1:])))
            self._handle(rows[:1], payloads[:1], lock)
            return
        too_late = rows[0].due_at - round(session.time.acquire_timeout * 500)
        taken = session.prefetched(rows, payloads, lock)
        with session.prefetching(taken):
            try:
                while session.now() < too_late and not self._stopped() and (found := taken.next()) is not None:
                    self._handle([found[0]], [found[1]], lock, taken)
                    if self._done is not None:
                        taken.handled(self._done)
                        self._done = None
            finally:
                if self._done is not None:
                    taken.handled(self._done)
                self._done, waiting = taken.rest()
                if taken.was_settled or waiting is not None:
                    self._pace.disturbed()
                if waiting is not None:
                    self._give_back(waiting)

    def _handle(self, rows: list[Row], payloads: list[Any], lock: str, taken: Prefetched | None = None) -> None:
        many = self._batch_size > 1
        held = Held(lock, tuple(row.id for row in rows))
        if self._stopped():
            self._give_back(held)
            return
        envelope: AckEnvelope[Any] = AckEnvelope(
            self._session, payloads if many else payloads[0], rows, lock, from_ms(self._session.now()), many=many
        )
        self._keeper.hold(envelope, taken)
        started = time.monotonic()
        try:
            check_answer("the handler", self._handler(envelope))
        except Exception as error:
            self._keeper.let_go()
            self._failed(envelope, lock, error)
        except BaseException:
            self._keeper.let_go()
            if not envelope._settled and envelope._rows:
                self._give_back(envelope._held())
            raise
        else:
            self._keeper.let_go()
            self._pace.handled(time.monotonic() - started)
            self._handled += len(rows)
            if envelope._rows and not envelope._settled:  # else the handler has spoken for itself
                self._done = envelope._held()

    def _failed(self, envelope: AckEnvelope[Any], lock: str, error: Exception) -> None:
        session = self._session
        shown = to_show(error, values=session.log_values)
        _log.error("the handler of delayed queue %r failed on %s", session.name, envelope.shown(), exc_info=shown)
        if envelope._settled:
            return
        try:
            for row in envelope._rows:
                due_at = session.after(session.retry.backoff.delay(row.attempts - 1), "delay")
                session.nack(lock, [row], due_at, error, self._max_attempts)
        except QueueUnavailable as unavailable:
            session.warn(
                "could not give back %s (%s); it comes back when its lease runs out", envelope.shown(), unavailable
            )

    def _give_back(self, held: Held) -> None:
        try:
            self._session.release(held)
        except (QueueUnavailable, QueueBroken, ShutDown):
            _log.warning("could not give back %d messages; they come back when their lease runs out", len(held.ids))

    def _flush(self) -> None:
        """Acknowledge the handled messages, without a fetch."""
        done = self._done
        if done is None:
            return
        try:
            report_lost(self._session.ack(done), done)
        except (QueueUnavailable, QueueBroken, ShutDown):
            _log.warning("could not acknowledge %d handled messages; they will be delivered again", len(done.ids))

    def _stopped(self) -> bool:
        return self._session.closed or (self._stop is not None and self._stop.is_set())

    def _sleep(self, noted: int, seconds: float) -> None:
        """Wait for an offer or the end of a time, checking ``stop`` now and then."""
        if self._stop is None:
            self._session.wakeup.wait(noted, seconds)
            return
        left = seconds
        while left > 0 and not self._stopped():
            part = min(left, _STOP_CHECK)
            if self._session.wakeup.wait(noted, part):
                return
            left -= part
