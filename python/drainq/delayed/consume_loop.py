"""The loop that passes messages to a handler: fetches, acknowledges, releases, buries.

The loop is a generator, which yields each envelope for the handler and each pause. ``consume.py`` runs it. A prefetched
message can follow the last one without a step of the generator, if that involves no wait.

One statement acknowledges a message and fetches the next, so a message costs one round trip and one commit. If the
handler is quick, several messages share them (see :mod:`drainq.delayed.consume_prefetch`).

# Invariants

1. The handled messages are held, in ``_done`` or in the prefetch, until their acknowledgement is in the database or
   the loop has ended.
2. Every fetched message is acknowledged, released or buried, even if the loop is stopped or interrupted. If the
   database could not record that, the message is delivered again when its lease ends.
3. A temporary failure of the database never ends the loop. The loop itself tries again, once in each step, so that it
   checks ``stop`` in between. Of the database's errors, only QueueBroken ends the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple

from drainq.arguments import whole
from drainq.backoff import Backoff, Tries, check_backoff
from drainq.delayed.consume_prefetch import Pace, Prefetched, report_lost
from drainq.delayed.envelope import AckBatch, AckEnvelope, Leased
from drainq.delayed.errors import QueueBroken, QueueUnavailable
from drainq.delayed.lease import LeaseKeeper
from drainq.delayed.storage.records import Fetched, Held, Row, new_lock, taken_at
from drainq.delayed.storage_session import Session
from drainq.errors import ShutDown
from drainq.sql.error_text import error_text, to_show

_log = logging.getLogger("drainq")
_LONGEST_OUTAGE_PAUSE = 1.0
"""The most seconds between two tries while the database is away."""


def too_long(limit: float | None) -> TimeoutError:
    """Return the error of a handler that ran longer than its time limit."""
    return TimeoutError(f"the handler ran longer than {limit or 0:g} seconds")


class Pause(NamedTuple):
    """A wait of at most ``seconds`` for an offer. It ends at once if an offer came after ``noted`` was read."""

    noted: int
    seconds: float


Steps = Generator["Leased | Pause | int", "BaseException | None", None]
"""The steps of a consumer: pass an envelope to the handler and send back its error, wait, or return a count."""


def consumer_loop(
    session: Session,
    *,
    batch_size: int,
    stop: Any,
    max_attempts: int | None,
    backoff: Backoff | None,
    max_in_flight: int | Mapping[str, int] | None,
    prefetch: int,
    until: str | None,
    time_limit: float | None = None,
) -> ConsumerLoop:
    """Return a consumer. Its arguments are checked now."""
    prefetch = whole("prefetch", prefetch, least=1)
    batch_size = whole("batch_size", batch_size, least=1)
    if max_attempts is not None:
        max_attempts = whole("max_attempts", max_attempts, least=1)
    if until not in (None, "empty"):
        raise ValueError(f'until must be "empty" or None, got {until!r}')
    backoff = session.retry.backoff if backoff is None else check_backoff(backoff)
    limits = _limits(max_in_flight)
    return ConsumerLoop(session, batch_size, stop, max_attempts, backoff, limits, prefetch, until, time_limit)


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


class ConsumerLoop:
    """One consumer.

    Attributes:
        handled: how many messages it has handled.
        took: seconds of the latest call of the handler, set by the caller.
    """

    def __init__(
        self,
        session: Session,
        batch_size: int,
        stop: Any,
        max_attempts: int | None,
        backoff: Backoff,
        limits: dict[str, int],
        prefetch: int,
        until: str | None,
        time_limit: float | None,
    ) -> None:
        self.session = session
        self._batch_size = batch_size
        self._stop = stop
        self._until, self._is_over = until, False
        self._limits = limits
        self._time_limit = time_limit
        self._keeper = LeaseKeeper(session, time_limit, self._overdue)
        self._lock: str | None = None  # of the last fetch
        self._done: Held | None = None
        self._was_asked = False  # whether a fetch that acknowledges ``done`` was tried, and its answer lost
        self._freed: set[str] = set()  # the groups of messages that the next fetch acknowledges
        self.handled = 0
        self.took = 0.0
        self._envelope: Leased | None = None  # the envelope that the handler has
        self._rows: Sequence[Row] = ()  # its messages
        self._taken: Prefetched | None = None  # the prefetch that holds the next messages
        self._too_late = 0  # the time (milliseconds) from which ``_taken`` is given back
        self._tries = Tries(session.retry.backoff)
        self._backoff = backoff
        retries = session.retry.max_retries
        self._max_attempts = max_attempts or session.max_attempts or (None if retries is None else retries + 1)
        # With one attempt only, a crash would make dead letters of the messages that wait behind the handled one.
        alone = batch_size > 1 or bool(limits) or self._max_attempts == 1 or not session.storage.worth_prefetching
        self._pace = Pace(1 if alone else prefetch)

    def cut_off(self) -> None:
        """Release the message whose handler does not end. The handler's acknowledgement will change nothing."""
        held = self._keeper.cut_off()
        if held is not None:
            self._give_back(held)

    def run(self) -> Steps:
        """Yield the steps. The last is the number of handled messages."""
        self.session.listen()
        with self._keeper:
            try:
                while not self._stopped():
                    yield from self._step()
            except ShutDown:
                pass  # the queue was closed; a handler's own ShutDown is an error of the handler
            except (KeyboardInterrupt, SystemExit):
                self._flush()
                if self._lock is not None:
                    self.session.undo_take(self._lock)
                raise
            finally:
                self._flush()
        yield self.handled

    def follow(self) -> Leased | None:
        """Return the next prefetched message, after the handler has returned from the last.

        Returns None, so that the generator continues, if no message is left, or if the next step might wait: for the
        database, or for a lock held during a database call.
        """
        taken, envelope, session = self._taken, self._envelope, self.session
        if taken is None or envelope is None or envelope._settled or session.clock_waits:
            return None
        now = session.now()
        if now >= self._too_late or self._stopped():
            return None

        def following() -> Leased | None:
            found = taken.swap(self._rows[0].id)
            return None if found is None else AckEnvelope(session, found[1], found[0], envelope._lock, now)

        if (after := self._keeper.follow(following, now / 1000)) is not None:
            session.activity.handled(self.took)
            self._succeeded()
            self._envelope, self._rows, self.took = after, after._rows, 0.0
        return after

    def _step(self) -> Steps:
        session = self.session
        noted = session.wakeup.count()
        rows: list[Row] = []
        try:
            lock = self._lock = new_lock(session.now())
            fetched = self._fetch(lock)
            rows, payloads = session.deliverable(fetched.rows, lock)
            self._tries.failures = 0
        except QueueUnavailable as error:
            pause = min(self._tries.failed() or 0.0, _LONGEST_OUTAGE_PAUSE)
            why = error_text(error.__cause__, values=session.log_values)
            session.warn("consume of delayed queue %r waits for its database (%s)", session.name, why)
            yield Pause(noted, pause)
            return
        if len(rows) == 1 or (rows and self._batch_size > 1):
            yield from self._handle(rows, payloads, lock)
        elif rows:
            yield from self._one_by_one(rows, payloads, lock)
        elif not fetched.rows and self._until is not None:
            self._is_over = True
        elif not fetched.rows:
            yield Pause(noted, session.pause_until(fetched.next_due))

    def _fetch(self, lock: str) -> Fetched:
        """Acknowledge the handled messages and take the next ones; without a history, in one round trip."""
        session = self.session
        done, again = self._done, self._was_asked
        is_room = bool(self._limits) and done is not None
        self._was_asked = done is not None
        if done is not None and session.history is not None:
            report_lost(session.call_apart(session.ack_now, done, taken_at(lock), again=again), done)
            done = self._done = None
            self._was_asked = False
        size = self._pace.size()
        fetched, _ = session.take_once(done, max(self._batch_size, size), self._limits, lock, again=again)
        if len(fetched.rows) < size and any(row.group is not None for row in fetched.rows):
            self._pace.disturbed()  # this fetch took a message of every free group; other consumers need one
        self._done, self._was_asked = None, False
        if done is not None:
            report_lost(fetched.acked, done)
        if is_room or self._leaves_a_group(fetched.rows):
            session.wakeup.wake()  # there is room for another consumer's message
        return fetched

    def _leaves_a_group(self, rows: list[Row]) -> bool:
        """Return whether a group of the acknowledged messages may have a message for another consumer. If this
        fetch found no message, another consumer would find none, either."""
        freed, self._freed = self._freed, set()
        return bool(freed and rows) and not freed <= {row.group for row in rows}

    def _one_by_one(self, rows: list[Row], payloads: list[Any], lock: str) -> Steps:
        """Handle messages of one fetch, each by itself."""
        session = self.session
        if any(row.attempts > 1 or row.max_attempts == 1 for row in rows):
            self._pace.disturbed()
            self._give_back(Held(lock, tuple(row.id for row in rows[1:])))
            yield from self._handle(rows[:1], payloads[:1], lock)
            return
        self._too_late = rows[0].due_at - round(session.time.acquire_timeout * 500)
        taken = self._taken = session.prefetched(rows, payloads, lock)
        with session.prefetching(taken):
            try:
                while session.now() < self._too_late and not self._stopped() and (found := taken.next()) is not None:
                    yield from self._handle([found[0]], [found[1]], lock)
                    if self._done is not None:
                        taken.handled(self._done)
                        self._done = None
            finally:
                self._taken = None
                if self._done is not None:
                    taken.handled(self._done)
                self._done, waiting = taken.rest()
                if taken.was_settled or waiting is not None:
                    self._pace.disturbed()
                if waiting is not None:
                    self._give_back(waiting)

    def _handle(self, rows: list[Row], payloads: list[Any], lock: str) -> Steps:
        held = Held(lock, tuple(row.id for row in rows))
        if self._stopped():
            self._give_back(held)
            return
        now = self.session.now()
        envelope: Leased
        if self._batch_size > 1:
            envelope = AckBatch(self.session, payloads, rows, lock, now)
        else:
            envelope = AckEnvelope(self.session, payloads[0], rows[0], lock, now)
        self._envelope, self._rows, self.took = envelope, rows, 0.0
        self._keeper.hold(envelope, self._taken)
        error: BaseException | None = GeneratorExit()
        try:
            error = yield envelope
        finally:
            envelope, self._envelope = self._envelope, None  # :meth:`follow` may have replaced it
            self._keeper.let_go()
            self.session.activity.handled(self.took)
            if not (error is None or isinstance(error, Exception)) and envelope._rows and not envelope._settled:
                self._give_back(envelope._held())
        if self._keeper.was_overdue and (error is None or isinstance(error, Exception)):
            self._pace.disturbed()
        elif isinstance(error, Exception):
            self._failed(envelope, error)
        elif error is not None:
            raise error
        else:
            self._succeeded()
            if envelope._rows and not envelope._settled:  # else the handler has settled it
                self._done = envelope._held()

    def _succeeded(self) -> None:
        self._pace.handled(self.took)
        self.handled += len(self._rows)
        for row in self._rows:
            if row.group is not None:
                self._freed.add(row.group)

    def _overdue(self, envelope: Leased) -> None:
        """Fail the messages of a handler that runs too long. Its acknowledgement will change nothing."""
        error = too_long(self._time_limit)
        _log.error("the handler of delayed queue %r fails on %s: %s", self.session.name, envelope.shown(), error)
        try:
            self._try_again_later(envelope, error)
        except (QueueBroken, ShutDown):
            _log.warning("could not give back %s; it comes back when its lease runs out", envelope.shown())

    def _failed(self, envelope: Leased, error: Exception) -> None:
        session = self.session
        shown = to_show(error, values=session.log_values)
        _log.error("the handler of delayed queue %r failed on %s", session.name, envelope.shown(), exc_info=shown)
        if not envelope._settled:
            self._try_again_later(envelope, error)

    def _try_again_later(self, envelope: Leased, error: Exception) -> None:
        """Release the messages of a failed handler for a later try, or bury those without attempts left."""
        session, held = self.session, envelope._held()
        try:
            for row in envelope._rows:
                due_at = session.after(self._backoff.delay(row.attempts - 1), "delay")
                session.nack(held.lock, [row], due_at, error, self._max_attempts)
        except QueueUnavailable as unavailable:
            session.warn(
                "could not give back %s (%s); it comes back when its lease runs out", envelope.shown(), unavailable
            )

    def _give_back(self, held: Held) -> None:
        try:
            self.session.release(held)
        except (QueueUnavailable, QueueBroken, ShutDown):
            _log.warning("could not give back %d messages; they come back when their lease runs out", len(held.ids))

    def _flush(self) -> None:
        """Acknowledge the handled messages, without a fetch."""
        done = self._done
        if done is None:
            return
        self._done = None
        try:
            report_lost(self.session.ack(done, again=self._was_asked), done)
        except (QueueUnavailable, QueueBroken, ShutDown):
            _log.warning("could not acknowledge %d handled messages; they will be delivered again", len(done.ids))

    def _stopped(self) -> bool:
        return self._is_over or self.session.closed or (self._stop is not None and self._stop.is_set())
