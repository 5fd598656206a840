"""The shapes of sources and of their results.

| shape | asked by |
| --- | --- |
| an object with ``get_next_batch(batch_size)`` | calling that |
| an iterator | taking up to ``batch_size`` items from it; its end is the stream's end |
| a callable | calling it with ``batch_size`` |

| answer | means |
| --- | --- |
| None, or StopIteration is raised | the end of the stream |
| a collection: list, tuple, range, set, deque | these items; an empty one: nothing now |
| any other iterable | the items that it gives, as they come |
| str, bytes, a mapping | a mistake: letters, numbers and keys are no items |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

from drainq.callables import check_callable
from drainq.errors import UnfitItem

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Ask = Callable[[int], "Iterable[T] | None"]
"""Takes a batch size; returns items, an empty result if there is nothing now, or None at the end of the stream."""

_COLLECTIONS = (list, tuple, range, set, frozenset, deque)  # exactly these, because a subclass may read lazily
_NO_BATCHES = (str, bytes, bytearray, memoryview, Mapping)


class PullSource(Protocol[T_co]):
    """An object that returns batches."""

    def get_next_batch(self, batch_size: int, /) -> Iterable[T_co] | None:
        """Return up to ``batch_size`` items; None ends the stream."""
        ...


def ask_of(source: PullSource[T] | Ask[T] | Iterator[T]) -> Ask[T]:
    """Return the callable by which a source is asked.

    Raises:
        TypeError: it has none of the shapes.
    """
    method = getattr(source, "get_next_batch", None)
    if callable(method):
        return method  # type: ignore[no-any-return]
    if isinstance(source, Iterator):
        return AskIterator(source)
    if callable(source):
        check_callable("source", source, "batch_size", may_yield=True)
        return source
    raise TypeError(
        "source must be an object with get_next_batch(batch_size), a callable of that shape, or an iterator, "
        f"got {source!r}"
    )


class AskIterator(Generic[T]):
    """Asks an iterator for its next items. A forked child does not continue it."""

    def __init__(self, iterator: Iterator[T]) -> None:
        self._iterator = iterator

    def __call__(self, batch_size: int) -> Iterable[T] | None:
        """Return the next items as they come; None once the iterator has ended."""
        first = list(islice(self._iterator, 1))
        if not first:
            return None
        return self._rest(first, batch_size - 1)

    def _rest(self, first: list[T], n: int) -> Iterator[T]:
        yield from first
        yield from islice(self._iterator, n)


class SourceBatch(Generic[T]):
    """The result of a source, read once from beginning to end.

    Args:
        answer: an iterable of items.
        poll: the token of ``SetQueue._begin_poll``, from before the source was asked.

    Raises:
        TypeError: the answer is no batch.
    """

    def __init__(self, answer: Any, poll: int = 0) -> None:
        if isinstance(answer, _NO_BATCHES) or not isinstance(answer, Iterable):
            kind = type(answer).__name__
            raise UnfitItem(f"a source answers with a list of items, such as [item]; got a {kind}")
        self.poll = poll
        self.comes_as_read = type(answer) not in _COLLECTIONS
        """Whether reading the next item may wait, or raise."""
        self._items: Iterator[T] = iter(answer) if self.comes_as_read else iter(list(answer))
        self.ended = False
        self.error: BaseException | None = None
        """The exception that ended the batch."""

    def take(self, n: int) -> list[T]:
        """Return the next ``n`` items, fewer at the end of the batch."""
        items = list(islice(self._items, n) if not self.comes_as_read else self.one_by_one(n))
        self.ended = len(items) < n
        return items

    def one_by_one(self, n: int) -> Iterator[T]:
        """Yield up to ``n`` items, each as soon as it is there."""
        for _ in range(n):
            try:
                item = next(self._items)
            except StopIteration:
                self.ended = True
                return
            except BaseException as error:
                self.ended, self.error = True, error
                return
            yield item
