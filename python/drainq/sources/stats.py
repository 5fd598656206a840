"""The statistics of a prefetching source and of a scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from drainq.statistics import Statistics


@dataclass(frozen=True)
class PrefetchStats(Statistics):
    """Counters of a ``PrefetchSource``, taken at one moment.

    ``fetched == taken + size + held + duplicates + unusable``, exactly, while no refill is running.
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
    unusable: int
    """Items whose key raised, so that they could not enter."""
    errors: int
    """Errors of the source, an item's key, ``on_error``, a listener, the clock, ``backoff`` or the executor."""
    empty_refills: int
    """Refills for which the source had nothing."""
    in_flight: int
    """Items taken and not yet done (``in_flight="ack"``)."""
    held: int
    """Items returned beyond the capacity, which enter next."""
    starved_pulls: int
    """Pulls that found nothing during a refill."""


@dataclass(frozen=True)
class SourceCounts(Statistics):
    """The counters of one source's items."""

    moved: int
    """Items that the target took."""
    failed: int
    """Items on which the target raised."""
    errors: int
    """Times the source raised."""
    held: int
    """Items returned beyond the requested number, which come next."""
    ended: bool
    """Whether no item will come any more."""


@dataclass(frozen=True)
class SchedulerStats(Statistics):
    """Counters of a ``SourceScheduler``, exact while no step is under way."""

    steps: int
    """Steps taken."""
    moved: int
    """Items that the target took."""
    failed: int
    """Items on which the target raised."""
    errors: int
    """Times a source, the target, the backlog, the tracker, ``item_key`` or the strategy raised."""
    paused: bool
    """Whether the backlog was too large at the last step."""
    sources: Mapping[str, SourceCounts]
    """The counters of each source."""
