"""PostgresStorage: the delayed queue in PostgreSQL, for many processes on many machines.

Consumers take different rows, because ``FOR UPDATE SKIP LOCKED`` skips rows that another consumer is taking. No row is
locked while a handler works: a lease is a time in the row, not a transaction. :mod:`drainq.delayed.storage.base`
describes the parts of a storage.

# Invariant

Every method may be repeated after a lost connection: a repeated offer is ignored, and a repeated acknowledgement finds
no message. A committed acknowledgement does not fail if the history could not be trimmed. The next one trims it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from psycopg.errors import UntranslatableCharacter

from drainq.delayed.storage.postgres.listen import Subscription, channel
from drainq.delayed.storage.postgres.migrate import PostgresMigration
from drainq.delayed.storage.postgres.take import PostgresLimits
from drainq.delayed.storage.postgres.ticks import PostgresTicks
from drainq.delayed.storage.records import LONG_AGO, Chosen, Held, Past
from drainq.sql.driver_errors import passes
from drainq.sql.error_text import error_text

_log = logging.getLogger("drainq")


class PostgresStorage(PostgresLimits, PostgresTicks, PostgresMigration):
    """A :class:`~drainq.delayed.storage.base.Storage` in a PostgreSQL database.

    Args:
        connections: the connections to the database.
        table: the table's name, in the first schema of the search path.
        poll_period: seconds; see :mod:`drainq.delayed.storage.postgres.scan_floor`.
        shared: whether other queues use the connections, too. Then :meth:`close` leaves them open.
    """

    worth_prefetching = True
    marks_apart = True
    is_shared = True

    # --- consumers

    def _end_and_remember(self, name: str, values: dict[str, Any], kind: str, keep: int) -> int:
        ended = self._end_only(f"{name}_AND_REMEMBER", values)
        try:  # after the commit: within it, two consumers would not see, and so not count, each other's entries
            self._do("TRIM_HISTORY", {"kind": kind, "keep": keep})
        except Exception as error:
            if not passes(error):
                raise
            _log.info("the history of a delayed queue is trimmed by the next acknowledgement: %s", error_text(error))
        return ended

    def nack(self, kind: str, held: Held, due_at: int, error: str | None, past: Past | None = None) -> int:
        self._mark(kind).offered(due_at)
        return super().nack(kind, held, due_at, error, past)

    def release(self, kind: str, held: Held, due_at: int | None = None) -> int:
        self._mark(kind).offered(LONG_AGO if due_at is None else due_at)
        return super().release(kind, held, due_at)

    def free(self, kind: str, chosen: Chosen, now: int) -> int:
        return self._moved(kind, now, super().free(kind, chosen, now))

    def reschedule(self, kind: str, chosen: Chosen, at: int, now: int) -> int:
        return self._moved(kind, at, super().reschedule(kind, chosen, at, now))

    def _moved(self, kind: str, due_at: int, count: int) -> int:
        """Tell consumers, also those of other processes, that messages became due at another time."""
        self._mark(kind).offered(due_at)
        if count:
            self._ask("ANNOUNCE", {"channel": channel(kind), "news": f"@{due_at}"})
        return count

    def extend(self, kind: str, held: Held, until: int) -> int:
        self._mark(kind).offered(until)
        return super().extend(kind, held, until)

    def _end_only(self, name: str, values: dict[str, Any]) -> int:
        try:
            return self._do(name, values)
        except UntranslatableCharacter:  # the error's text has characters that the encoding lacks
            escaped = values["error"].encode("ascii", "backslashreplace").decode()
            return self._do(name, {**values, "error": escaped})

    # --- dead letters

    def redrive(self, kind: str, now: int, keys: Sequence[str] | None = None) -> int:
        self._mark(kind).offered(now)
        which = None if keys is None else self._keys(keys)
        return self._do_patiently("REDRIVE", {"kind": kind, "now": now, "keys": which})

    # --- the queue

    def set_paused(self, kind: str, *, name: str, type_name: str, paused: bool, by: str | None = None) -> bool:
        found = self._ask("SET_PAUSED", {"kind": kind, "name": name, "type": type_name, "paused": paused, "by": by})
        self._mark(kind).heard()  # polls while it was paused have proved nothing
        return bool(found) and (paused or not found[0][0])  # a new row that is not paused changes nothing

    def database_time(self) -> float:
        return float(self._ask("DATABASE_TIME", {})[0][0])

    def listen(self, kind: str, wake: Callable[[str], None]) -> Subscription:
        def heard(news: str) -> None:
            self._mark(kind).heard()
            wake(news)

        return self._connections.listener.subscribe(channel(kind), heard)
