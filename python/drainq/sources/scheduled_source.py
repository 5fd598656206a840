"""A source of a scheduler: takes items, and tells the source afterwards whether the target accepted them.

| source | taken by | after the target has them | after the target raised |
| --- | --- | --- | --- |
| a ``PrefetchSource`` | ``get_next_batch`` | (the target calls ``done``) | ``done``: it may come again |
| a ``DelayedQueue`` | ``try_poll_many`` | ``ack`` | ``nack``: it is delivered again |
| object, callable, iterator | asking it | | |

If a source returns more items than it was asked for, the rest is held and comes first next time.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any

from drainq.fork import leave_to_parent
from drainq.sources.prefetch_source import PrefetchSource
from drainq.sources.source_shapes import Ask, AskIterator, SourceBatch, ask_of


class Feed:
    """A source that returns batches on request."""

    needs_items_afterwards = False
    """Whether the source needs the items after delivery. The target may change its list."""

    def __init__(self, ask: Ask[Any]) -> None:
        self._ask = ask
        self._held: deque[Any] = deque()
        self._batch: SourceBatch[Any] | None = None
        self._source_ended = False

    def take(self, n: int) -> list[Any]:
        """Return up to ``n`` items.

        Raises:
            Exception: the error of the source. Items that it gave before are held.
        """
        if len(self._held) < n:
            if self._batch is None and not self._source_ended:
                self._batch = self._answer(n - len(self._held))
            if self._batch is not None:
                self._read(self._batch, n - len(self._held))
        taken = list(islice(self._held, n))
        for _ in taken:
            self._held.popleft()
        return taken

    def _answer(self, n: int) -> SourceBatch[Any] | None:
        try:
            answer = self._ask(n)
        except StopIteration:
            answer = None
        if answer is None:
            self._source_ended = True
            return None
        return SourceBatch(answer)

    def _read(self, batch: SourceBatch[Any], n: int) -> None:
        """Read a batch: all of a collection; of an iterator one more than ``n``, to see its end."""
        self._held.extend(batch.take(n + 1) if batch.comes_as_read else batch.take(sys.maxsize))
        if batch.ended:
            self._batch = None
        if batch.error is not None:
            raise batch.error

    def give_back(self, items: list[Any]) -> None:
        """Take back items that never reached the target. They come first next time."""
        self._held.extendleft(reversed(items))

    def drain_held(self) -> list[Any]:
        """Return the held items. The source is not asked again."""
        return list(self._held)

    def forget(self) -> None:
        """Discard the held items. In a forked child, taken items and the rest of an iterator belong to the parent."""
        leave_to_parent(self._held, self._batch)
        self._held, self._batch = deque(), None
        self._source_ended = self._source_ended or isinstance(self._ask, AskIterator)

    def delivered(self, items: list[Any]) -> None:
        """Record that the target has the items."""

    def failed(self, items: list[Any]) -> None:
        """Record that the target raised on the items."""

    @property
    def ended(self) -> bool:
        """Whether no item will come any more."""
        return self._source_ended and not self._held

    @property
    def held(self) -> int:
        """Items that the source returned and no step has taken."""
        return len(self._held)

    def subscribe(self, listener: Callable[[], object]) -> bool:
        """Call ``listener`` when there may be items. Return False if this source must be polled."""
        return False

    def unsubscribe(self, listener: Callable[[], object]) -> None:
        """Call ``listener`` no more."""


class PrefetchFeed(Feed):
    """A prefetching source, which notifies the scheduler when it has items."""

    needs_items_afterwards = True

    def __init__(self, source: PrefetchSource[Any]) -> None:
        super().__init__(source.get_next_batch)
        self._source = source

    def failed(self, items: list[Any]) -> None:
        """Let the source bring the items again."""
        self._source.done(items)

    @property
    def ended(self) -> bool:
        """Whether the stream has ended and all its items were taken."""
        return self._source.finished and not self._held

    def subscribe(self, listener: Callable[[], object]) -> bool:
        """Have ``listener`` called after each refill."""
        self._source.subscribe(listener)
        return True

    def unsubscribe(self, listener: Callable[[], object]) -> None:
        """Call ``listener`` no more."""
        self._source.unsubscribe(listener)


class DelayedFeed(Feed):
    """A delayed queue: its messages are acknowledged once the target has them."""

    def __init__(self, queue: Any) -> None:
        super().__init__(self._poll)
        self._queue = queue
        self._leased: list[Any] = []

    def _poll(self, n: int) -> list[Any]:
        envelope = self._queue.try_poll_many(n)
        payloads = list(envelope.payload)
        if payloads:
            self._leased.append(envelope)
        return payloads

    def give_back(self, items: list[Any]) -> None:
        """Give the leases back: the messages are delivered again."""
        self.failed(items)

    def forget(self) -> None:
        """Drop the leases, which belong to the parent of this forked child."""
        super().forget()
        leave_to_parent(self._leased)
        self._leased = []

    def delivered(self, items: list[Any]) -> None:
        """Acknowledge the messages."""
        leased, self._leased = self._leased, []
        for envelope in leased:
            envelope.ack()

    def failed(self, items: list[Any]) -> None:
        """Give the leases back."""
        leased, self._leased = self._leased, []
        for envelope in leased:
            envelope.nack()


def feed_of(source: Any) -> Feed:
    """Return the feed for a source.

    Raises:
        TypeError: it has none of the shapes.
    """
    if isinstance(source, PrefetchSource):
        return PrefetchFeed(source)
    if callable(getattr(source, "try_poll_many", None)):
        return DelayedFeed(source)
    return Feed(ask_of(source))
