"""SQLite: stores messages."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from drainq.delayed.message import OfferOutcome
from drainq.delayed.storage.records import Offer
from drainq.delayed.storage.sqlite.statements import SQLiteStatements


class SQLiteOffers(SQLiteStatements):
    """The methods of a storage that store messages."""

    def offer(
        self,
        kind: str,
        offers: Sequence[Offer],
        now: int,
        *,
        connection: Any = None,
        announce: str | None = None,
        again: bool = False,
    ) -> list[OfferOutcome]:
        if connection is not None:
            with self._in_transaction_of(connection) as cursor:
                return self._offer_each(cursor, kind, offers, now)
        if len(offers) == 1:  # a new key is the common case, and one statement
            with self._cursor() as cursor:
                if cursor.execute(self._sql["INSERT_NEW"], values_of(kind, offers[0], now)).rowcount:
                    return [OfferOutcome.CREATED]
            if not offers[0].can_update:
                return [OfferOutcome.IGNORED]
        else:
            try:
                return self._offer_new(kind, offers, now)
            except sqlite3.IntegrityError:
                pass  # a key exists, or is twice in the batch. Nothing was done. Another violation is raised below
        with self._transaction() as cursor:
            return self._offer_each(cursor, kind, offers, now)

    def _offer_new(self, kind: str, offers: Sequence[Offer], now: int) -> list[OfferOutcome]:
        """Insert all messages. If one is not new, insert none and raise IntegrityError."""
        with self._transaction() as cursor:
            cursor.executemany(self._sql["INSERT"], (values_of(kind, offer, now) for offer in offers))
        return [OfferOutcome.CREATED] * len(offers)

    def _offer_each(self, cursor: sqlite3.Cursor, kind: str, offers: Sequence[Offer], now: int) -> list[OfferOutcome]:
        outcomes = []
        for offer in offers:
            values = values_of(kind, offer, now)
            if cursor.execute(self._sql["INSERT_NEW"], values).rowcount:
                outcomes.append(OfferOutcome.CREATED)
            elif offer.can_update and cursor.execute(self._sql["UPDATE"], values).rowcount:
                outcomes.append(OfferOutcome.UPDATED)
            else:
                outcomes.append(OfferOutcome.IGNORED)
        return outcomes


def values_of(kind: str, offer: Offer, now: int) -> tuple[str, str, bytearray, int, int, int, int, str]:
    """Return a message's values in the order of INSERT, INSERT_NEW, UPDATE and UPDATE_TICK."""
    key, payload, at, _, rank, tries, group = offer
    return key, kind, bytearray(payload), at, now, rank, tries or 0, group or ""
