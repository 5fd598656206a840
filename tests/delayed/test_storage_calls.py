"""Every call of a storage, what it answers, and which rows it leaves: the same on each back end.

``calls_*.txt`` are read like a session: below each call stands its answer, then the rows that went (-) and came (+).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from drainq.delayed.message import OfferOutcome
from drainq.delayed.storage.records import TICK_MEMORY_MS, Chosen, Held, Offer, Past, Tick
from drainq.sql.connect import connect_sqlite
from tests.delayed.conftest import World

TABLES = {
    "": '"pKind", "pKey", "payload", "scheduledAt", "scheduledAtInitially", "lockUuid", "createdAt", "attempts",'
    ' "attemptsOf", "lastError", "priority", "maxAttempts", "inGroup"',
    "__dead": '"pKind", "pKey", "payload", "scheduledAt", "attempts", "error", "diedAt", "priority", "maxAttempts", "inGroup"',
    "__cron": '"pKind", "pKey", "keyPrefix", "configHash", "nominalAt", "isFloor", "recordedAt"',
    "__schedules": '"pKind", "keyPrefix", "configHash", "description", "installedAt"',
    "__queues": '"pKind", "name", "typeName", "paused", "ranked"',
    "__history": '"pKind", "pKey", "scheduledAt", "attempts", "finishedAt"',
}
D = TICK_MEMORY_MS
B = 10**12
"""The time of the schedules, shown as ~."""
STAMP = "20010909-014640.00000000"
"""Of the keys of ticks, but the last digit, which alone is written and shown."""
G = {"kind": "t", "prefix": "p", "config_hash": "g"}
H = {**G, "config_hash": "h"}


def new(key: str, at: int, rank: int = 0) -> Offer:
    return Offer(key, key.encode(), at, False, rank)


def put(
    key: str, at: int, rank: int = 0, payload: bytes = b"new", tries: int | None = None, group: str | None = None
) -> Offer:
    return Offer(key, payload, at, True, rank, tries, group)


def tick(name: str, at: int, payload: bytes = b"t") -> Tick:
    return Tick(name, payload, (B + at) * 1000, B + at)


class Watched:
    """A storage, whose calls are written down with what they change."""

    def __init__(self, world: World) -> None:
        self.storage = world.open("unused")._session.storage
        self.storage.holder = "h/1/n"
        if world.backend == "sqlite":
            self.connection: Any = connect_sqlite(world.url.removeprefix("sqlite:///"), lock_timeout=5)
        else:
            import psycopg

            self.connection = psycopg.connect(world.url, autocommit=True, client_encoding="utf8")
        self.table = world.table

    def rows(self) -> list[str]:
        found = []
        for suffix, columns in TABLES.items():
            order = '"id"' if suffix in ("", "__dead", "__history") else "1, 2"
            for row in self.connection.execute(f'SELECT {columns} FROM "{self.table}{suffix}" ORDER BY {order}'):
                if row[1] != "unused":
                    found.append(f"{suffix.strip('_') or 'row'} " + " ".join(map(shown, row)))
        return found

    def transcript(self, calls: list[str]) -> str:
        lines = []
        before = self.rows()
        ids = self.ids
        for call in calls:
            answer = eval(
                "s." + re.sub(r'/(?=[0-9]")', "/" + STAMP, call),
                globals(),
                {"s": self.storage, "ids": ids, "Chosen": Chosen, "Past": Past},
            )
            after = self.rows()
            lines += [call, f"    {told(answer)}"]
            lines += [f"    - {row}" for row in before if row not in after]
            lines += [f"    + {row}" for row in after if row not in before]
            before = after
        self.connection.close()
        return "".join(f"{line}\n" for line in lines).replace("10000000000", "~").replace(STAMP, "")

    def ids(self, lock: str, *keys: str) -> Held:
        """The messages of these keys, as one that holds ``lock`` names them."""
        found = self.connection.execute(f'SELECT "pKey", "id" FROM "{self.table}"').fetchall()
        return Held(lock, tuple(number for key, number in found if key in keys))


def shown(value: Any) -> str:
    if isinstance(value, (bytes, memoryview)):
        return bytes(value).decode()
    return "-" if value is None else str(int(value) if isinstance(value, bool) else value).replace(" ", "_") or "''"


def told(answer: Any) -> str:
    """Write an answer without ids, which are the back end's own affair."""
    if isinstance(answer, OfferOutcome):
        return answer.name
    if isinstance(answer, (list, tuple)):
        fields = getattr(answer, "_fields", ())
        kept = [part for name, part in zip(fields, answer, strict=True) if name != "id"] if fields else answer
        return f"{type(answer).__name__ if fields else ''}({', '.join(map(told, kept))})"
    return f"{answer:%H:%M:%S.%f}" if hasattr(answer, "hour") else repr(answer)


@pytest.mark.parametrize("file", ["calls_messages.txt", "calls_schedules.txt"])
def test_each_call_answers_and_leaves_the_same_rows(world, file):
    script = Path(__file__).with_name(file).read_text()
    calls = [line for line in script.splitlines() if not line.startswith(" ")]
    assert Watched(world).transcript(calls) == script
