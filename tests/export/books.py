"""The equation that every exporter's books keep."""

from __future__ import annotations

from typing import Any


def assert_books(exporter: Any, accepted: int, **counts: int) -> None:
    """Check that every accepted item is in one place, and that the counts are these; others are 0."""
    stats = exporter.stats()
    places = ("sent", "refused", "dead_lettered", "lost", "pending")
    assert {place: getattr(stats, place) for place in places} == {**dict.fromkeys(places, 0), **counts}, stats
    assert stats.accepted == accepted == sum(getattr(stats, place) for place in places), stats
