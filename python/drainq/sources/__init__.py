"""Sources: pulls from slow sources without stopping a fast loop.

| module | what it holds |
| --- | --- |
| ``source_shapes`` | the shapes of sources and of their results |
| ``async_source`` | sources that are ``async def``, and their event loop |
| ``prefetch_source`` | :class:`PrefetchSource`: a buffer refilled in the background; the consumer's side |
| ``prefetch_refill`` | the refill's side: starts, runs and ends refills |
| ``prefetch_read`` | reads a source's items, checks them, and puts them into the buffer |
| ``prefetch_buffer_size``, ``prefetch_options``, ``prefetch_reports`` | the size; the arguments; errors and listeners |
| ``source_scheduler`` | :class:`SourceScheduler`: pulls from many sources, feeds one target |
| ``scheduled_source`` | one source of a scheduler, with its acknowledgements |
| ``scheduler_plan``, ``scheduler_delivery`` | the sources and strategy of a step; the delivery to the target |
| ``scheduler_strategy`` | :class:`Fair`, :class:`Prefer`, :class:`Weighted`: the share of each source |
| ``tracker`` | :class:`ItemTracker`: the state of each item |

Their buffers are native: ``SetQueue``, a queue without duplicates.
"""

from drainq.sources.prefetch_source import PrefetchSource
from drainq.sources.scheduler_strategy import Fair, Prefer, Strategy, Weighted
from drainq.sources.source_scheduler import SourceScheduler
from drainq.sources.stats import PrefetchStats, SchedulerStats, SourceCounts
from drainq.sources.tracker import ItemState, ItemTracker

__all__ = [
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
