"""Sources: a fast loop in front of slow ones.

| module | what it holds |
| --- | --- |
| ``source_shapes`` | what a source may be, and what it answers with |
| ``prefetch_source`` | :class:`PrefetchSource`: a buffer refilled in the background; this is the consumer's side |
| ``prefetch_refill`` | when a refill starts, where it runs and how it ends |
| ``prefetch_read`` | a refill's items: asked for, read, checked, let into the buffer |
| ``prefetch_buffer_size``, ``prefetch_options``, ``prefetch_reports`` | the size; the arguments; errors and listeners |
| ``source_scheduler`` | :class:`SourceScheduler`: pulls from many sources, feeds one target |
| ``scheduled_source`` | one source as the scheduler sees it |
| ``scheduler_plan``, ``scheduler_delivery`` | what a step goes by; a share on its way to the target |
| ``scheduler_strategy`` | :class:`Fair`, :class:`Prefer`, :class:`Weighted`: who gives how much |
| ``tracker`` | :class:`ItemTracker`: where each item is |

The duplicate-dropping queue below them, ``SetQueue``, is native.
"""

from drainq.backoff import Backoff
from drainq.sources.prefetch_source import PrefetchSource
from drainq.sources.scheduler_strategy import Fair, Prefer, Strategy, Weighted
from drainq.sources.source_scheduler import SourceScheduler
from drainq.sources.stats import PrefetchStats, SchedulerStats, SourceCounts
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
