"""Looking after a queue: what is in it, taking things out for good, and the dead letters.

What a person at a shell or a dashboard asks; consumers and producers need none of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from drainq.delayed.message import check_key
from drainq.delayed.session import Session
from drainq.delayed.storage.protocol import DeadLetter, Row

DROP_CONFIRMATION = "Yes, please, I know what I'm doing!"


@dataclass(frozen=True)
class DelayedQueueStats:
    """How a queue stands.

    Attributes:
        ready: messages that are due and not on loan; those whose lease ran out are due again.
        scheduled: messages that become due later.
        in_flight: messages on loan.
        oldest_ready_age: seconds that the longest waiting ready message has been due; 0.0 if none is.
        redelivered: messages here now that were delivered more than once.
        dead: dead letters.
    """

    ready: int
    scheduled: int
    in_flight: int
    oldest_ready_age: float
    redelivered: int
    dead: int


class Admin:
    """The part of :class:`~drainq.delayed.DelayedQueue` that looks and removes."""

    _session: Session

    def contains_message(self, key: str) -> bool:
        """Whether there is a message of this key, due or not, in flight or not."""
        return self._session.call(self._session.storage.contains, self._session.kind, check_key(key))

    def drop_message(self, key: str) -> bool:
        """Delete the message of this key, in flight or not; False if there is none."""
        return self._session.call(self._session.storage.drop, self._session.kind, check_key(key))

    def drop_all_messages(self, confirm: str) -> int:
        """Delete every message of this queue, not its dead letters; other queues of the table keep theirs.

        Args:
            confirm: exactly ``Yes, please, I know what I'm doing!``

        Returns:
            How many there were.

        Raises:
            ValueError: the confirmation is another text.
        """
        if confirm != DROP_CONFIRMATION:
            raise ValueError(f"to drop all messages pass confirm={DROP_CONFIRMATION!r}, got {confirm!r}")
        return self._session.call(self._session.storage.drop_all, self._session.kind)

    def peek(self, limit: int = 10) -> list[Row]:
        """The first messages by due time, as they are stored, without taking them."""
        return self._session.call(self._session.storage.peek, self._session.kind, _check_limit(limit))

    def stats(self) -> DelayedQueueStats:
        """Count the messages in each state; reads the whole queue's index, about 0.1 s a million messages."""
        now = self._session.now()
        counts = self._session.call(self._session.storage.counts, self._session.kind, now)
        age = 0.0 if counts.oldest_ready is None else (now - counts.oldest_ready) / 1000
        return DelayedQueueStats(counts.ready, counts.scheduled, counts.in_flight, age, counts.redelivered, counts.dead)

    def dead_letters(self, limit: int = 100) -> list[DeadLetter]:
        """The messages that were given up on, the latest first, with the reason."""
        return self._session.call(self._session.storage.dead, self._session.kind, _check_limit(limit))

    def redrive(self, keys: Iterable[str] | None = None) -> int:
        """Put dead letters back, due now and with their attempts at zero.

        Of two with one key the later goes back; one whose key a live message has taken stays.

        Args:
            keys: which; ``None`` for all.

        Returns:
            How many went back.
        """
        wanted = None if keys is None else _check_keys(keys)
        back = self._session.call(self._session.storage.redrive, self._session.kind, self._session.now(), wanted)
        self._session.wakeup.wake()
        return back

    def drop_dead_letters(self, keys: Iterable[str] | None = None) -> int:
        """Delete dead letters for good; ``None`` for all. Return how many."""
        wanted = None if keys is None else _check_keys(keys)
        return self._session.call(self._session.storage.drop_dead, self._session.kind, wanted)


def _check_keys(keys: Iterable[str]) -> list[str]:
    if isinstance(keys, str):
        raise TypeError(f"keys must be a list of keys, got the str {keys!r}")
    return [check_key(key) for key in keys]


def _check_limit(limit: object) -> int:
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise ValueError(f"limit must be a whole number of at least 1, got {limit!r}")
    return limit
