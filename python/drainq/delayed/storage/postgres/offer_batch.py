"""PostgreSQL: stores many messages, a thousand with each statement.

# Invariant

Every batch locks its rows in the order of their keys, so that two batches cannot deadlock.

A batch of 1,000 messages is a few binary arrays of 1,000 values, encoded here: the driver's general encoding would cost
a third of the processor time of the whole batch in this process.

Source: ``array_send`` in PostgreSQL: dimensions, a flag for NULLs, the element's type, the length, the lower bound;
then each element behind its length. All numbers are big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from drainq.delayed.message import OfferOutcome
from drainq.delayed.storage.postgres.direct_libpq import DirectConnection
from drainq.delayed.storage.postgres.statements import PostgresStatements
from drainq.delayed.storage.records import Offer

_BOOL, _BYTEA, _BIGINT, _INTEGER, _TEXT = 16, 17, 20, 23, 25  # the types' numbers, as in pg_type
_length = struct.Struct("!i").pack


def texts(values: Sequence[str]) -> bytes:
    """Encode a ``text[]``."""
    return _of_bytes(_TEXT, [value.encode() for value in values])


def some_integers(values: Sequence[int | None]) -> bytes | None:
    """Encode an ``integer[]`` with NULLs. Return None if all are NULL."""
    if values.count(None) == len(values):
        return None
    return _with_nulls(_INTEGER, [None if value is None else _length(value) for value in values])


def some_texts(values: Sequence[str | None]) -> bytes | None:
    """Encode a ``text[]`` with NULLs. Return None if all are NULL."""
    if values.count(None) == len(values):
        return None
    return _with_nulls(_TEXT, [None if value is None else value.encode() for value in values])


def _head(element: int, count: int, *, has_nulls: bool = False) -> bytes:
    return struct.pack("!iiIii", 1, has_nulls, element, count, 1)


def _with_nulls(element: int, values: Sequence[bytes | None]) -> bytes:
    parts: list[bytes] = [b""] * (2 * len(values))
    parts[::2] = [_length(-1 if value is None else len(value)) for value in values]
    parts[1::2] = [value or b"" for value in values]
    return _head(element, len(values), has_nulls=True) + b"".join(parts)


def _of_bytes(element: int, values: Sequence[bytes]) -> bytes:
    parts: list[bytes] = [b""] * (2 * len(values))
    parts[::2] = map(_length, map(len, values))
    parts[1::2] = values
    return _head(element, len(values)) + b"".join(parts)


def _of_numbers(element: int, code: str, size: int, values: Sequence[int]) -> bytes:
    parts = [size] * (2 * len(values))
    parts[1::2] = values
    return _head(element, len(values)) + struct.pack("!" + f"i{code}" * len(values), *parts)


def _longs(values: Sequence[int]) -> bytes:
    return _of_numbers(_BIGINT, "q", 8, values)


CHUNK = 1000
"""Most messages of one statement."""

OUTCOMES = {None: OfferOutcome.IGNORED, b"\x01": OfferOutcome.CREATED, b"\x00": OfferOutcome.UPDATED}
"""The outcome for each binary answer of a statement."""


class PostgresBatches(PostgresStatements):
    """The methods of a storage that store many messages."""

    def _offer_all(self, cursor: Any, kind: str, offers: Sequence[Offer], now: int) -> list[OfferOutcome]:
        """Offer any number of messages, in the transaction of ``cursor``."""
        ask = cursor.connection.ask if isinstance(cursor.connection, DirectConnection) else None
        outcomes: dict[int, OfferOutcome] = {}
        statement = statement_for(offers)
        for places in _rounds(offers):
            ids: dict[int, int] = {}
            if len(places) > CHUNK:  # ids follow the input; within one statement they do so by themselves
                numbers = cursor.execute(self._sql["RESERVE"], {"n": len(places)}).fetchall()
                ids = {place: number for place, (number,) in zip(places, numbers)}
                places = sorted(places, key=lambda place: offers[place].key)
            for start in range(0, len(places), CHUNK):
                chunk = places[start : start + CHUNK]
                few = [offers[place] for place in chunk]
                numbers = [ids[place] for place in chunk] if ids else None
                if ask is not None:
                    said = self._offer_chunk(ask, statement, kind, few, numbers, now)
                else:
                    said = self._offer_by_cursor(cursor, statement, kind, few, numbers, now)
                outcomes.update(zip(chunk, said))
        return [outcomes[place] for place in range(len(offers))]

    def _offer_chunk(
        self,
        ask: Callable[..., Any],
        statement: str,
        kind: str,
        offers: Sequence[Offer],
        ids: Sequence[int] | None,
        now: int,
    ) -> list[OfferOutcome]:
        """Offer messages of distinct keys by one statement, which ``ask`` runs."""
        keys, contents, times, may, ranks, tries, groups = zip(*offers)
        values: dict[str, Any] = {"kind": kind, "now": now, "ids": None if ids is None else _longs(ids)}
        values |= {"keys": texts(keys), "payloads": _of_bytes(_BYTEA, contents), "times": _longs(times)}
        values["ranks"] = _of_numbers(_INTEGER, "i", 4, ranks)
        values |= {"tries": some_integers(tries), "groups": some_texts(groups)}
        if statement == "OFFER_MANY_MIXED":
            values["may"] = _of_numbers(_BOOL, "?", 1, may)
        answer = ask(self._direct[statement], values)
        value = answer.get_value
        changed = {value(n, 0): value(n, 1) for n in range(answer.ntuples)}
        return [OUTCOMES[changed.get(key.encode())] for key in keys]

    def _offer_by_cursor(
        self, cursor: Any, statement: str, kind: str, offers: Sequence[Offer], ids: Sequence[int] | None, now: int
    ) -> list[OfferOutcome]:
        """Offer messages of distinct keys on a connection of the caller."""
        keys, contents, times, may, ranks, tries, groups = map(list, zip(*offers))
        values = {"kind": kind, "now": now, "keys": keys, "payloads": contents, "times": times, "ranks": ranks}
        values |= {"ids": ids, "tries": tries if any(tries) else None, "groups": groups if any(groups) else None}
        if statement == "OFFER_MANY_MIXED":
            values["may"] = may
        self._execute(cursor, statement, values)
        changed = {key: (created,) for key, created in cursor.fetchall()}
        return [outcome_of(changed.get(offer.key)) for offer in offers]


def statement_for(offers: Sequence[Offer]) -> str:
    """Return the name of the statement for offers of which all, some or none may update."""
    may_update = {offer.can_update for offer in offers}
    return "OFFER_MANY_MIXED" if len(may_update) > 1 else "OFFER_MANY" if True in may_update else "OFFER_MANY_NEW"


def outcome_of(created: tuple[bool | None, ...] | None) -> OfferOutcome:
    """Return the outcome that a statement's answer reports for a message."""
    if created is None or created[0] is None:
        return OfferOutcome.IGNORED
    return OfferOutcome.CREATED if created[0] else OfferOutcome.UPDATED


def _rounds(offers: Sequence[Offer]) -> list[list[int]]:
    """Split the offers into rounds without duplicate keys, so that each key's offers keep their order. Return their
    indexes.

    One statement cannot touch a row twice, but the statements of several rounds can.
    """
    rounds: list[list[int]] = []
    seen: dict[str, int] = {}
    for place, offer in enumerate(offers):
        nth = seen.get(offer.key, 0)
        seen[offer.key] = nth + 1
        if nth == len(rounds):
            rounds.append([])
        rounds[nth].append(place)
    return rounds
