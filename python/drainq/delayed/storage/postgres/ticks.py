"""PostgreSQL: creates each tick of a schedule once, and deletes ticks.

Schedulers of one prefix take turns, by a lock on its row in the table of schedules, and use a separate connection. The
schedules of one process whose turns come together share a transaction: see
:mod:`drainq.delayed.storage.postgres.together`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from drainq.delayed.cron.tick_key import escape_hash, key_range
from drainq.delayed.message import OfferOutcome
from drainq.delayed.storage.postgres.offer import PostgresOffers
from drainq.delayed.storage.postgres.statements import LOCK_TIMEOUT_MS
from drainq.delayed.storage.postgres.together import Together
from drainq.delayed.storage.records import LONG_AGO, TICK_MEMORY_MS, Offer, Tick, TickRange

_MOST_TOGETHER = 64
"""The most schedules whose ticks one transaction creates."""


class _Install(NamedTuple):
    """The arguments of one :meth:`PostgresTicks.install_ticks`."""

    prefix: str
    config_hash: str
    ticks: Sequence[Tick]
    now: int
    update: bool
    description: str | None


class PostgresTicks(PostgresOffers):
    """The methods of a storage for the ticks of schedules."""

    def install_ticks(
        self,
        kind: str,
        *,
        prefix: str,
        config_hash: str,
        ticks: Sequence[Tick],
        now: int,
        update: bool = False,
        description: str | None = None,
    ) -> int:
        together: Together[_Install, int] | None = self._installs.get(kind)
        if together is None:
            together = self._installs.setdefault(kind, Together(partial(self._install, kind), most=_MOST_TOGETHER))
        return together(_Install(prefix, config_hash, ticks, now, update, description))

    def _install(self, kind: str, installs: Sequence[_Install]) -> list[int]:
        """Create the new ticks of schedules in one transaction. Return how many of each."""
        made: list[int] = []
        if any(install.ticks for install in installs):
            self._mark(kind).offered(min(tick.scheduled_at for install in installs for tick in install.ticks))
        with self._schedules.transaction() as cursor:
            self._lock_schedules(cursor, kind, [install.prefix for install in installs])
            self._name_all(cursor, kind, installs)
            while len(made) < len(installs):  # one configuration of a prefix after the other
                several: dict[str, _Install] = {}
                for install in installs[len(made) :]:
                    if install.prefix in several:
                        break
                    several[install.prefix] = install
                made += self._install_distinct(cursor, kind, [*several.values()])
        return made

    def _name_all(self, cursor: Any, kind: str, installs: Sequence[_Install]) -> None:
        """Name the schedules that have a description, in the order of their prefixes, as they are locked."""
        for prefix, config_hash, _, now, _, description in sorted(installs, key=lambda install: install.prefix):
            if description is not None:
                values = {"kind": kind, "prefix": prefix, "hash": config_hash, "description": description, "now": now}
                self._execute(cursor, "NAME_SCHEDULE", values)

    def _install_distinct(self, cursor: Any, kind: str, installs: Sequence[_Install]) -> list[int]:
        now = max(install.now for install in installs)
        ours = [key_range(f"{install.prefix}/{escape_hash(install.config_hash)}") for install in installs]
        others = [(install.prefix, key_range(install.prefix), but) for install, but in zip(installs, ours)]
        self._forget(cursor, kind, others, after=now)
        first: dict[str, tuple[_Install, Tick]] = {}
        for install in installs:
            for tick in install.ticks:
                first.setdefault(tick.key, (install, tick))
        new = self._record(cursor, kind, first, now)
        fresh = [Offer(tick.key, tick.payload, tick.scheduled_at, can_update=False) for _, tick in new.values()]
        outcomes = dict(zip(new, self._offer_all(cursor, kind, fresh, now)))
        for install, tick in first.values():
            if install.update and tick.key not in new:
                values = {"kind": kind, "key": tick.key, "payload": tick.payload, "at": tick.scheduled_at, "now": now}
                self._execute(cursor, "UPDATE_TICK", values)
        prefixes, hashes = [install.prefix for install in installs], [install.config_hash for install in installs]
        self._raise_floors(cursor, kind, prefixes, hashes, now - TICK_MEMORY_MS)
        created = Counter(first[key][0].prefix for key in new if outcomes[key] is OfferOutcome.CREATED)
        return [created[prefix] for prefix in prefixes]

    def _raise_floors(self, cursor: Any, kind: str, prefixes: Sequence[str], hashes: Sequence[str], until: int) -> None:
        self._execute(cursor, "FLOORS", {"kind": kind, "prefixes": prefixes, "hashes": hashes, "until": until})
        for prefix, its_hash, at in cursor.fetchall():
            if at is not None:
                values = {"kind": kind, "prefix": prefix, "hash": its_hash, "at": at, "until": until}
                self._execute(cursor, "RAISE_FLOOR", values)

    def _record(
        self, cursor: Any, kind: str, ticks: Mapping[str, tuple[_Install, Tick]], now: int
    ) -> dict[str, tuple[_Install, Tick]]:
        """Enter ticks into the ledger. Return the new ones."""
        if not ticks:
            return {}
        values = {"kind": kind, "keys": list(ticks), "now": now}
        values["nominals"] = [tick.nominal_at for _, tick in ticks.values()]
        values["prefixes"] = [install.prefix for install, _ in ticks.values()]
        values["hashes"] = [install.config_hash for install, _ in ticks.values()]
        self._execute(cursor, "RECORD_TICKS", values)
        created = {key for (key,) in cursor.fetchall()}
        return {key: found for key, found in ticks.items() if key in created}

    def _undelivered(
        self, cursor: Any, kind: str, ranges: Sequence[TickRange], after: int
    ) -> list[tuple[int, str, str]]:
        prefixes, within, but = zip(*ranges)
        values = {"kind": kind, "after": after, "prefixes": list(prefixes)}
        values["lows"], values["highs"] = [low for low, _ in within], [high for _, high in within]
        values["but_lows"], values["but_highs"] = [low for low, _ in but], [high for _, high in but]
        self._execute(cursor, "UNDELIVERED_TICKS", values)
        return list(cursor.fetchall())

    def uninstall_ticks(self, kind: str, *, prefix: str, config_hash: str) -> int:
        ours = f"{prefix}/{escape_hash(config_hash)}"
        with self._schedules.transaction() as cursor:
            self._lock_schedules(cursor, kind, [prefix])
            return self._forget(cursor, kind, [(prefix, key_range(ours), ("", ""))], after=LONG_AGO)

    def forget_schedule(self, kind: str, *, prefix: str) -> int:
        which = {"kind": kind, "prefix": prefix}
        with self._schedules.transaction() as cursor:
            self._lock_schedules(cursor, kind, [prefix])
            cursor.execute(self._sql["UNNAME_SCHEDULE"], which)
            return int(cursor.execute(self._sql["FORGET_SCHEDULE"], which).rowcount)

    def backfill_ticks(self, kind: str, *, prefix: str, config_hash: str, ticks: Sequence[Tick], now: int) -> int:
        first: dict[str, Tick] = {}
        for tick in ticks:
            first.setdefault(tick.key, tick)
        if not first:
            return 0
        self._mark(kind).offered(min(tick.scheduled_at for tick in ticks))
        values = {"kind": kind, "prefix": prefix, "hash": config_hash, "now": now, "keys": list(first)}
        values["nominals"] = [tick.nominal_at for tick in first.values()]
        with self._schedules.transaction() as cursor:
            self._lock_schedules(cursor, kind, [prefix])
            cursor.execute(self._sql["BACKFILL_TICKS"], values)
            new = {key for (key,) in cursor.fetchall()}
            offers = [Offer(t.key, t.payload, t.scheduled_at, can_update=False) for t in first.values() if t.key in new]
            return self._offer_all(cursor, kind, offers, now).count(OfferOutcome.CREATED)

    def _lock_schedules(self, cursor: Any, kind: str, prefixes: Sequence[str]) -> None:
        """Take a turn among the schedulers of these prefixes until the commit.

        Raise an error if the turn does not come, to try again later.
        """
        values = {"kind": kind, "prefixes": sorted(prefixes), "ms": str(LOCK_TIMEOUT_MS)}
        self._execute(cursor, "LOCK_SCHEDULES", values)
