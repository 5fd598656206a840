"""Dead-letter administration: reads dead letters, redrives them into the queue, or deletes them.

``dead_letters_bury.py`` decides which messages become dead letters.
"""

from __future__ import annotations

from collections.abc import Iterable

from drainq.arguments import Seconds, seconds
from drainq.delayed.coroutines import twin
from drainq.delayed.message import check_count, check_key, check_text
from drainq.delayed.storage.records import DeadLetter
from drainq.delayed.storage_session import Session

_CENTURY = 100 * 366 * 24 * 3600


class DeadLetterAdmin:
    """The methods of :class:`~drainq.delayed.DelayedQueue` for dead letters."""

    _session: Session

    def dead_letters(self, prefix: str | None = None, limit: int = 100) -> list[DeadLetter]:
        """Return the dead letters with their reasons, the latest first.

        Args:
            prefix: return only dead letters whose keys begin with it.
            limit: the most dead letters to return.
        """
        session, most = self._session, check_count("limit", limit)
        if prefix is None:
            return session.call(session.storage.dead, session.kind, most)
        return session.call(session.storage.dead_of, session.kind, check_prefix(prefix), most)

    def purge_dead(self, older_than: Seconds) -> int:
        """Delete the dead letters that died longer ago than ``older_than`` (seconds). Return how many."""
        age = seconds("older_than", older_than)
        if age > _CENTURY:
            raise ValueError(f"older_than must be between 0 and {_CENTURY:,} seconds, a century, got {older_than!r}")
        before = self._session.now() - int(age * 1000)
        return self._session.call(self._session.storage.purge_dead, self._session.kind, before)

    def redrive(self, keys: Iterable[str] | None = None, *, prefix: str | None = None) -> int:
        """Move dead letters back to the queue, due now and with zero attempts.

        Of two dead letters with one key, the later is moved. A dead letter stays if a live message has its key.

        Args:
            keys: the keys to move; ``None`` for all.
            prefix: only those whose keys begin with it; not together with ``keys``.

        Returns:
            The number of moved messages.

        Example:
            >>> from drainq.delayed import DelayedQueue
            >>> with DelayedQueue.open("memory:", "mail", max_attempts=1) as mail:
            ...     _ = mail.offer("welcome/ann", "Hello"), mail.poll().nack(error="no such address")
            ...     print([letter.error for letter in mail.dead_letters()], mail.redrive(prefix="welcome/"))
            ['no such address'] 1
        """
        wanted = self._which(keys, prefix)
        back = self._session.call(self._session.storage.redrive, self._session.kind, self._session.now(), wanted)
        self._session.wakeup.wake()
        return back

    def drop_dead_letters(
        self, keys: Iterable[str] | None = None, *, prefix: str | None = None, everything: bool = False
    ) -> int:
        """Delete dead letters. Return how many.

        Args:
            keys: the keys to delete.
            prefix: delete those whose keys begin with it; at least one character.
            everything: True to delete all. One of the three arguments is required.
        """
        if everything is not True and keys is None and not prefix:
            raise ValueError(
                f"pass keys, a prefix, or everything=True to delete all dead letters for good, "
                f"got prefix={prefix!r} and everything={everything!r}"
            )
        if everything and not (keys is None and prefix is None):
            raise ValueError("pass keys or a prefix or everything=True, not two of them")
        return self._session.call(self._session.storage.drop_dead, self._session.kind, self._which(keys, prefix))

    dead_letters_async = twin(dead_letters)
    purge_dead_async = twin(purge_dead)
    redrive_async = twin(redrive)
    drop_dead_letters_async = twin(drop_dead_letters)

    def _which(self, keys: Iterable[str] | None, prefix: str | None) -> list[str] | None:
        """Return the keys of the selected dead letters; None for all."""
        if keys is not None and prefix is not None:
            raise ValueError("pass keys or prefix, not both")
        if prefix is not None:
            return self._session.call(self._session.storage.dead_keys, self._session.kind, check_prefix(prefix))
        return None if keys is None else _check_keys(keys)


def _check_keys(keys: Iterable[str]) -> list[str]:
    if isinstance(keys, str):
        raise TypeError("keys must be a list of keys, got a str; for a prefix pass prefix=")
    if not isinstance(keys, Iterable):
        raise TypeError(f"keys must be a list of keys, got a {type(keys).__name__}")
    return [check_key(key) for key in keys]


def check_prefix(prefix: object) -> str:
    """Return ``prefix``, or raise an error if no key can begin with it."""
    if not isinstance(prefix, str):
        raise TypeError(f"prefix must be a str, got a {type(prefix).__name__}")
    check_text(prefix, "prefix")
    return prefix
