"""What can be asked for a batch: the shapes in which a source may come.

| shape | asked by |
| --- | --- |
| an object with ``get_next_batch(batch_size)`` | calling that |
| an iterator | taking up to ``batch_size`` items from it; its end is the stream's end |
| a callable | calling it with ``batch_size`` |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Ask = Callable[[int], "Iterable[T] | None"]
"""Takes a batch size; returns items, none if there is nothing now, or None at the end of the stream."""


class PullSource(Protocol[T_co]):
    """An object that hands out batches."""

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
        return _AskIterator(source)
    if callable(source):
        return source
    raise TypeError(
        "a source is an object with get_next_batch(batch_size), a callable of that shape, or an iterator; "
        f"got {source!r}"
    )


class _AskIterator(Generic[T]):
    def __init__(self, iterator: Iterator[T]) -> None:
        self._iterator = iterator

    def __call__(self, batch_size: int) -> Iterable[T] | None:
        first = list(islice(self._iterator, 1))
        if not first:
            return None
        return self._rest(first, batch_size - 1)

    def _rest(self, first: list[T], n: int) -> Iterator[T]:
        yield from first
        yield from islice(self._iterator, n)
