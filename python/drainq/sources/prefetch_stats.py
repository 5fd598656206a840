"""What a prefetching source has done."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PrefetchStats:
    """Counters of a ``PrefetchSource``, taken at one moment.

    ``fetched == put into the buffer + duplicates + held``, except for items that were themselves an error.
    """

    size: int
    """Items in the buffer."""
    capacity: int
    """Items that the buffer may hold, now."""
    refills: int
    """Times the source was asked, failures included."""
    refilling: bool
    """Whether a refill is running."""
    fetched: int
    """Items that the source returned."""
    duplicates: int
    """Items refused because an equal one was known."""
    errors: int
    """Refills that raised, and items without a usable key."""
    empty_refills: int
    """Refills for which the source had nothing."""
    in_flight: int
    """Items taken and not yet done (``in_flight="ack"``)."""
    held: int
    """Items returned beyond the capacity, which enter next."""
    starved_pulls: int
    """Pulls that came away empty while a refill was running."""
