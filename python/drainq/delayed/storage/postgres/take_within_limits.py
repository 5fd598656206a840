"""PostgreSQL: takes messages within in-flight limits.

Consumers with limits take turns, by a lock that ends with the transaction. Each counts the messages in flight, then
takes due messages while there is room.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drainq.delayed.storage.in_flight_limits import Room
from drainq.delayed.storage.postgres import take_sql as sql
from drainq.delayed.storage.postgres.scan_floor import LOWEST
from drainq.delayed.storage.postgres.take import PostgresTakes
from drainq.delayed.storage.records import Fetched, Held


class PostgresLimits(PostgresTakes):
    """The methods of a storage that take messages within limits."""

    def acquire_within(
        self, kind: str, done: Held, limits: Mapping[str, int], limit: int, now: int, until: int, lock: str
    ) -> Fetched:
        with self._pool.transaction() as cursor:
            self._execute(cursor, "LOCK_FLIGHT", {"name": f"drainq flight {kind}"})
            acked = cursor.execute(self._sql["ACK"], self._held(done)).rowcount
            flying = cursor.execute(self._sql["IN_FLIGHT"], {"kind": kind, "now": now}).fetchall()
            room = Room(limits, [key for (key,) in flying])
            ids = self._pick(cursor, kind, limit, now, room)
            if not ids:
                return Fetched(acked, [])
            values = {"ids": ids, "until": until, "lock": lock}
            found = cursor.execute(self._fill(sql.TAKE_THESE), values).fetchall()
            return Fetched(acked, self._in_order((*columns[:6], until, True, columns[6]) for columns in found))

    def _pick(self, cursor: Any, kind: str, limit: int, now: int, room: Room) -> list[int]:
        """Return the messages to take while there is room. Each round of the loop, except the last, fills a prefix."""
        (by_priority,) = cursor.execute(self._fill(sql.IS_BY_PRIORITY), {"kind": kind}).fetchone()
        picked: list[int] = []
        seen: list[int] = []
        while "" not in room.full() and len(picked) < limit:
            wanted = limit - len(picked)
            values = {"kind": kind, "now": now, "start": LOWEST, "full": room.full(), "seen": seen}
            found = cursor.execute(self._fill(sql.CANDIDATES[by_priority], wanted), values).fetchall()
            seen += [number for number, _ in found]
            picked += [number for number, key in found if room.take(key)]
            if len(found) < wanted:
                break
        return picked
