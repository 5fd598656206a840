"""The reader of a prefetching source: asks the source for items, reads and checks them, and puts or holds them.

Invariants:
    1. Only the thread of the refill runs this code, except that after a close a pull runs ``let_in`` and ``close`` runs
       ``let_go``. This code shares only ``buffer``, the counters and the flags with the consumers.
    2. The buffer never exceeds its capacity. Further new items are held, in order, and enter first when there is room.
    3. The source is not asked while items are held or a batch is not read to its end. So an item is never both in the
       buffer and held, and no item overtakes another.
    4. A poll of the buffer lasts from the request until its batch has been read. An item that is done during the poll
       stays known, so a copy that was read before is refused.
    5. Each item of the source is in the buffer, held, a duplicate, or counted as unusable. The error of one item's key
       affects no other item.
    6. A batch that is read item by item is read at most one item beyond the room.

Source: the wrapped source of ``QueueingLimitedSource`` in "Fast Critical Path with Async Queueing". There, all items
that a source returns enter the buffer, whatever its capacity.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import length_hint
from typing import Generic, TypeVar

from drainq._native import SetQueue
from drainq.sources.prefetch_buffer_size import AutoSize
from drainq.sources.source_shapes import Ask, SourceBatch

T = TypeVar("T")

_PUT_AT_ONCE = 1000
"""Items that go into the buffer in one native call. Between two calls a pull that waits for the GIL gets it."""


class Refill:
    """The state of one refill."""

    def __init__(self) -> None:
        self.thread: int | None = None
        """The thread that runs or ends it; None while it waits."""
        self.asked = False
        """Whether the source was asked."""
        self.found = 0
        """Items that the source gave."""
        self.added = 0
        """Items that went into the buffer."""
        self.outdated = False
        """Whether items were forgotten since it began, so that earlier duplicates may be new."""
        self.error: BaseException | None = None
        """The error of the source or the executor."""


class Intake(Generic[T]):
    """Fills a buffer from a source.

    Args:
        ask: the source.
        buffer: the consumers' buffer.
        key: maps an item to its identity; None is the item itself.
        size: the capacity, which may change.
        report: called with each error; it raises nothing.
        arrived: called after items entered the buffer while more may follow. It raises nothing.
        ended: whether the stream has ended already.
    """

    def __init__(
        self,
        ask: Ask[T],
        buffer: SetQueue[T],
        *,
        key: Callable[[T], Hashable] | None,
        size: AutoSize,
        report: Callable[[BaseException], None],
        arrived: Callable[[], None],
        ended: bool,
    ) -> None:
        self._ask = ask
        self._buffer = buffer
        self._held: SetQueue[T] = SetQueue(None, key)
        self._size = size
        self._report = report
        self._arrived = arrived
        self._batch: SourceBatch[T] | None = None
        self._known = 0
        self.ended = ended
        """Whether the source has ended the stream. Then no item is held, and no batch is read."""
        self.closed = False
        """Whether the intake asks and waits for no more items."""
        self.hungry = False
        """Whether a consumer found no item since the last call of ``arrived``."""
        self.unusable = 0
        """Items whose key raised."""

    @property
    def held(self) -> int:
        """Items read beyond the capacity, which enter next."""
        return len(self._held)

    @property
    def duplicates(self) -> int:
        """Items that were not held because an equal one was known."""
        return self._known + self._held.stats().duplicates

    def fill(self, refill: Refill) -> None:
        """Put held items into the buffer. Then continue the current batch, or ask the source for the room that is left.

        Raises:
            BaseException: the error of the source. Items that it gave before are kept.
        """
        while len(self._held):
            room = self._room()
            if not room:
                return
            self.let_in(min(room, _PUT_AT_ONCE))
            self._arrived()
        room = self._room()
        if not room or self.closed:
            return
        if self._batch is None and not self.ended:
            refill.asked = True
            self._batch = self._answer(room)
        if self._batch is not None:
            self._read(self._batch, refill)

    def let_in(self, n: int) -> int:
        """Move up to ``n`` held items into the buffer. Return how many were moved."""
        items = self._held.get_many(n, min_items=0)
        self._put(self._buffer, items)
        return len(items)

    def let_go(self) -> None:
        """Read no more of the current batch. Called while no refill runs, or by the refill itself."""
        batch, self._batch = self._batch, None
        if batch is not None:
            self._buffer._end_poll(batch.poll)

    def _room(self) -> int:
        return self._size.capacity - len(self._buffer)

    def _answer(self, room: int) -> SourceBatch[T] | None:
        """Ask the source."""
        poll = self._buffer._begin_poll()
        batch: SourceBatch[T] | None = None
        try:
            answer = self._ask(room)
            if answer is None:
                self.ended = True
            else:
                batch = SourceBatch(answer, poll)
        except StopIteration:
            self.ended = True
        finally:
            if batch is None:
                self._buffer._end_poll(poll)
        return batch

    def _read(self, batch: SourceBatch[T], refill: Refill) -> None:
        """Put a batch into the buffer and hold the rest, or hold one item if the batch is read item by item."""
        if batch.comes_as_read:
            self._read_as_it_comes(batch, refill)
        else:
            self._read_whole(batch, refill)
        if batch.ended:
            self.let_go()
        if batch.error is not None:
            raise batch.error

    def _read_whole(self, batch: SourceBatch[T], refill: Refill) -> None:
        queue = self._buffer
        while not batch.ended:
            room = self._room() if queue is self._buffer else 0
            if not room:
                queue = self._held  # from here on all items are held, so that none overtakes another
            items = batch.take(min(room, _PUT_AT_ONCE) or _PUT_AT_ONCE)
            refill.found += len(items)
            self._put(queue, items)
            self._arrived()

    def _read_as_it_comes(self, batch: SourceBatch[T], refill: Refill) -> None:
        while not batch.ended and not self.closed and not len(self._held):
            room = self._room()
            if room:
                self._put_as_it_comes(batch, room, refill)
            else:  # read one item more, so that a generator reaches its end
                items = batch.take(1)
                refill.found += len(items)
                self._put(self._buffer if self._room() else self._held, items)
                self._arrived()

    def _put(self, queue: SetQueue[T], chunk: list[T]) -> None:
        """Put items into the buffer, or hold the new ones."""
        rest = iter(chunk)
        items = rest if queue is self._buffer else filter(self._is_new, rest)
        while True:
            try:
                queue.put_many(items)
                return
            except BaseException as error:
                self._put_again(queue, chunk[len(chunk) - length_hint(rest) - 1], error)

    def _put_as_it_comes(self, batch: SourceBatch[T], room: int, refill: Refill) -> None:
        """Put up to ``room`` items into the buffer, each as soon as it is there."""
        put = self._buffer.put_nowait
        for item in batch.one_by_one(room):
            refill.found += 1
            try:
                put(item)
            except BaseException as error:
                self._put_again(self._buffer, item, error)
            if self.hungry:
                self._arrived()
            if self.closed:
                return

    def _put_again(self, queue: SetQueue[T], item: T, error: BaseException) -> None:
        """Handle an item whose key raised. An interrupt is not the item's fault, so ``key`` is called again."""
        self._report(error)
        if not isinstance(error, Exception):
            try:
                queue.put_many([item])
                return
            except BaseException as second:
                self._report(second)
        self.unusable += 1

    def _is_new(self, item: T) -> bool:
        known = self._buffer.knows(item)
        self._known += known
        return not known
