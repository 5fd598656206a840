"""PostgreSQL: messages are stored, one by one or in batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drainq.delayed.message import OfferOutcome
from drainq.delayed.storage.postgres_listen import channel
from drainq.delayed.storage.postgres_statements import PostgresStatements
from drainq.delayed.storage.protocol import Offer

_CHUNK = 1000
_OUTCOMES = {None: OfferOutcome.IGNORED, b"\x01": OfferOutcome.CREATED, b"\x00": OfferOutcome.UPDATED}


class PostgresOffers(PostgresStatements):
    """The part of a storage that takes messages in."""

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
        self._mark(kind).offered(min(offer.scheduled_at for offer in offers))
        if len(offers) == 1 and not again:
            name, values = self._one_offer(kind, offers[0], now, announce=announce)
            if connection is None:
                answer = self._pool.ask(self._direct[name], values)
                return [_OUTCOMES[answer.get_value(0, 0) if answer.ntuples else None]]
            with self._in_transaction_of(connection) as cursor:
                return [_outcome(cursor.execute(self._sql[name], values).fetchone())]
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
        values["priority"] = offer.priority
        name = "OFFER" if offer.can_update else "OFFER_NEW"
        if announce is not None:
            name += "_ANNOUNCED"
            values |= {"channel": channel(kind), "news": announce}
        return name, values

    def _offer_all(self, cursor: Any, kind: str, offers: Sequence[Offer], now: int) -> list[OfferOutcome]:
        """Offer any number of messages, rows locked in the order of their keys, so that two batches cannot deadlock."""
        outcomes: dict[int, OfferOutcome] = {}
        may_update = {offer.can_update for offer in offers}
        statement = (
            "OFFER_MANY_MIXED" if len(may_update) > 1 else "OFFER_MANY" if True in may_update else "OFFER_MANY_NEW"
        )
        for places in _rounds(offers):
            ids: dict[int, int] = {}
            if len(places) > _CHUNK:  # ids follow the input; within one statement they do so by themselves
                numbers = cursor.execute(self._sql["RESERVE"], {"n": len(places)}).fetchall()
                ids = {place: number for place, (number,) in zip(places, numbers)}
                places = sorted(places, key=lambda place: offers[place].key)
            for start in range(0, len(places), _CHUNK):
                chunk = places[start : start + _CHUNK]
                values = {
                    "keys": [offers[place].key for place in chunk],
                    "payloads": [offers[place].payload for place in chunk],
                    "times": [offers[place].scheduled_at for place in chunk],
                    "ranks": [offers[place].priority for place in chunk],
                    "ids": [ids[place] for place in chunk] if ids else None,
                    "kind": kind,
                    "now": now,
                }
                if statement == "OFFER_MANY_MIXED":
                    values["may"] = [offers[place].can_update for place in chunk]
                self._execute(cursor, statement, values)
                changed = {key: (created,) for key, created in cursor.fetchall()}
                outcomes.update((place, _outcome(changed.get(offers[place].key))) for place in chunk)
        return [outcomes[place] for place in range(len(offers))]

    def _stored(
        self, cursor: Any, kind: str, offers: Sequence[Offer], now: int
    ) -> dict[tuple[str, bytes, int], OfferOutcome]:
        """What an earlier try of the same call at ``now`` stored: key, payload and time, and what it was to say.

        The rows are read before the offers are repeated, because a row that conflicts with an offer is marked as if it
        were updated.
        """
        cursor.execute(self._sql["STORED"], {"kind": kind, "keys": [offer.key for offer in offers], "now": now})
        return {
            (key, payload, at): OfferOutcome.CREATED if created else OfferOutcome.UPDATED
            for key, payload, at, created in cursor.fetchall()
        }


def _rounds(offers: Sequence[Offer]) -> list[list[int]]:
    """The places of the offers, split so that no round has a key twice and each key's offers keep their order.

    One statement cannot touch a row twice; one after the other they can, as if offered one by one.
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


def _outcome(created: tuple[bool | None, ...] | None) -> OfferOutcome:
    if created is None or created[0] is None:
        return OfferOutcome.IGNORED
    return OfferOutcome.CREATED if created[0] else OfferOutcome.UPDATED
