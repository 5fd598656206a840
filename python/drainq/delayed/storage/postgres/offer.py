"""PostgreSQL: stores messages, one by one or in batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drainq.delayed.message import OfferOutcome
from drainq.delayed.storage.postgres.listen import channel
from drainq.delayed.storage.postgres.offer_batch import CHUNK, OUTCOMES, PostgresBatches, outcome_of, statement_for
from drainq.delayed.storage.records import Offer


class PostgresOffers(PostgresBatches):
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
        if not offers:
            return []
        alone = len(offers) == 1
        self._mark(kind).offered(offers[0].scheduled_at if alone else min(offer.scheduled_at for offer in offers))
        if alone and not again:
            name, values = self._one_offer(kind, offers[0], now, announce=announce)
            if connection is None:
                answer = self._pool.ask(self._direct[name], values)
                return [OUTCOMES[answer.get_value(0, 0) if answer.ntuples else None]]
            with self._in_transaction_of(connection) as cursor:
                return [outcome_of(cursor.execute(self._sql[name], values).fetchone())]
        if connection is None and len(offers) <= CHUNK and announce is None and not again:
            if len({offer.key for offer in offers}) == len(offers):  # one statement, which is its own transaction
                return self._offer_chunk(self._pool.ask, statement_for(offers), kind, offers, None, now)
        with self._pool.transaction() if connection is None else self._in_transaction_of(connection) as cursor:
            stored = self._stored(cursor, kind, offers, now) if again else {}
            outcomes = self._offer_all(cursor, kind, offers, now)
            if stored:
                outcomes = [
                    stored.get((offer.key, offer.payload, offer.scheduled_at), outcome)
                    if outcome is OfferOutcome.IGNORED
                    else outcome
                    for offer, outcome in zip(offers, outcomes)
                ]
            if announce is not None:
                self._execute(cursor, "ANNOUNCE", {"channel": channel(kind), "news": announce})
            return outcomes

    def _one_offer(self, kind: str, offer: Offer, now: int, *, announce: str | None) -> tuple[str, dict[str, Any]]:
        values = {"key": offer.key, "kind": kind, "payload": offer.payload, "at": offer.scheduled_at, "now": now}
        values |= {"priority": offer.priority, "tries": offer.max_attempts, "group": offer.group}
        name = "OFFER" if offer.can_update else "OFFER_NEW"
        if announce is not None:
            name += "_ANNOUNCED"
            values |= {"channel": channel(kind), "news": announce}
        return name, values

    def _stored(
        self, cursor: Any, kind: str, offers: Sequence[Offer], now: int
    ) -> dict[tuple[str, bytes, int], OfferOutcome]:
        """Return the key, payload and time of messages that an earlier try at ``now`` stored, with the outcome of each.

        The rows are read before the offers are repeated, because a repeated offer marks its row as updated.
        """
        cursor.execute(self._sql["STORED"], {"kind": kind, "keys": [offer.key for offer in offers], "now": now})
        return {
            (key, payload, at): OfferOutcome.CREATED if created else OfferOutcome.UPDATED
            for key, payload, at, created in cursor.fetchall()
        }
