"""Sources: a fast loop in front of slow ones.

| module | what it holds |
| --- | --- |
| ``prefetch`` | :class:`PrefetchSource`: a buffer refilled in the background |
| ``scheduler`` | :class:`SourceScheduler`: pulls from many sources, feeds one target |
| ``strategy`` | :class:`Fair`, :class:`Prefer`, :class:`Weighted`: who gives how much |
| ``tracker`` | :class:`ItemTracker`: where each item is |

The duplicate-dropping queue below them, ``SetQueue``, is native.
"""

from drainq.backoff import Backoff
from drainq.sources.prefetch_source import PrefetchSource
from drainq.sources.scheduler import SourceScheduler
from drainq.sources.stats import PrefetchStats, SchedulerStats, SourceCounts
from drainq.sources.strategy import Fair, Prefer, Strategy, Weighted
from drainq.sources.tracker import ItemState, ItemTracker

__all__ = [
    "Backoff",
    "Fair",
    "ItemState",
    "ItemTracker",
    "Prefer",
    "PrefetchSource",
    "PrefetchStats",
    "SchedulerStats",
    "SourceCounts",
    "SourceScheduler",
    "Strategy",
    "Weighted",
]
