"""Strategies: how a scheduler shares a batch among its sources. They are values, which can be nested and replaced.

A strategy splits a number of items among the sources that have items. If a source has fewer than its share, the rest is
split again among the others, so no share is left unused. A strategy has no state: the scheduler passes in the credits,
which are the fractions of an item left over from earlier splits, by child. So a strategy may be replaced, or used
twice, and no source loses a turn.

Bounds: as long as the same sources have items, a child of ``Fair`` or ``Weighted`` differs from its exact share by at
most one item per sibling, and a source with items waits for at most one round of the others. A source behind ``Prefer``
waits as long as the preferred source has items.

Source: the strategies of "Fast Critical Path with Async Queueing"; the credits are those of deficit round-robin.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Protocol, Union, runtime_checkable

Child = Union[str, "Strategy"]
Credits = MutableMapping[Child, float]


def checked_split(strategy: Strategy, n: int, live: Collection[str], credits: Credits) -> dict[str, int]:
    """Split ``n`` items by a strategy, which may be the caller's own, and check the result.

    Returns:
        The shares above 0 of the live sources. Their sum is at most ``n``.

    Raises:
        TypeError: the answer is no mapping from names to whole numbers.
        ValueError: a share is negative, a name is none of the strategy's own, or the sum is too large.
    """
    shares = strategy.split(n, live, credits)
    call = f"{strategy!r}.split({n}, {sorted(live)!r}, ...)"
    if not isinstance(shares, Mapping):
        raise TypeError(f"{call} must return a dict of names and numbers of items, got {shares!r}")
    for name, share in shares.items():
        if isinstance(share, bool) or not isinstance(share, int):
            raise TypeError(f"{call} must return whole numbers of items, got {share!r} for {name!r}")
        if share < 0:
            raise ValueError(f"{call} must return numbers of items >= 0, got {share} for {name!r}")
        if name not in live and name not in strategy.names():
            raise ValueError(f"{call} gives {share} to {name!r}, but its names() are {sorted(strategy.names())!r}")
    if sum(shares.values()) > n:
        raise ValueError(f"{call} gives away {sum(shares.values())} items, but there are only {n} to give")
    return {name: share for name, share in shares.items() if share and name in live}


@runtime_checkable
class Strategy(Protocol):
    """An object that splits a batch. It is hashable, and equal to an object that splits in the same way."""

    def names(self) -> Iterator[str]:
        """Yield the names of the sources, including nested ones. A scheduler asks once, when the strategy is set."""
        ...

    def split(self, n: int, live: Collection[str], credits: Credits) -> dict[str, int]:
        """Return the share of each ``live`` source. The sum is ``n`` unless no source is live.

        Args:
            n: items to split.
            live: the names of the sources that may have items.
            credits: the fractions owed from earlier splits; this call updates them.
        """
        ...


@dataclass(frozen=True, init=False)
class Weighted:
    """Shares in proportion to weights.

    Args:
        weights: maps each source's name, or a strategy, to a weight > 0.

    Attributes:
        children: each source's name, or strategy, with its weight.

    Raises:
        TypeError: ``weights`` is no mapping.
        ValueError: no child, or a weight that is not > 0.

    Example:
        >>> Weighted({"x": 3, "y": 1}).split(8, ["x", "y"], {})
        {'x': 6, 'y': 2}
    """

    children: tuple[tuple[Child, float], ...]

    def __init__(self, weights: Mapping[Child, float]) -> None:
        if not isinstance(weights, Mapping):
            raise TypeError(
                f"weights must map each source's name to a weight, as {{'x': 3, 'y': 1}} does, got {weights!r}"
            )
        for child, weight in weights.items():
            _check_child(child)
            if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 < weight < math.inf:
                raise ValueError(f"a weight must be a number > 0, got {weight!r} for {child!r}")
        if not weights:
            raise ValueError("a strategy needs at least one source")
        object.__setattr__(self, "children", tuple(weights.items()))

    def names(self) -> Iterator[str]:
        """Yield the names of the sources, nested ones too."""
        for child, _ in self.children:
            yield from _names(child)

    def split(self, n: int, live: Collection[str], credits: Credits) -> dict[str, int]:
        """Split ``n`` items by weight among the live children."""
        able = [(child, weight) for child, weight in self.children if any(name in live for name in _names(child))]
        if not able:
            return {}
        total = sum(weight for _, weight in able)
        shares: dict[str, int] = {}
        owed = {child: credits.get(child, 0.0) + n * weight / total for child, weight in able}
        given = _round(owed, n)
        for child, share in given.items():
            credits[child] = owed[child] - share
            for name, part in _split_child(child, share, live, credits).items():
                shares[name] = shares.get(name, 0) + part
        return shares

    def __repr__(self) -> str:
        return f"Weighted({{{', '.join(f'{child!r}: {weight!r}' for child, weight in self.children)}}})"


class Fair(Weighted):
    """Equal shares.

    Args:
        children: names of sources, or strategies.

    Raises:
        ValueError: no child, or one that occurs twice.

    Example:
        >>> Fair("x", "y").split(8, ["x", "y"], {})
        {'x': 4, 'y': 4}
    """

    def __init__(self, *children: Child) -> None:
        for child in children:
            _check_child(child)
        if len(set(children)) < len(children):
            raise ValueError(f"each child may occur once, got {children!r}; Weighted gives one a larger share")
        super().__init__(dict.fromkeys(children, 1))

    def __repr__(self) -> str:
        return f"Fair({', '.join(repr(child) for child, _ in self.children)})"


@dataclass(frozen=True, init=False)
class Prefer:
    """Strict priority: takes as many items as it can from the first source, and the rest from the next.

    Args:
        first: a source's name, or a strategy.
        otherwise: a source's name, or a strategy, for the rest of a batch; None for nothing.

    Example:
        >>> Prefer("z", otherwise=Fair("x", "y")).split(8, ["x", "y"], {})
        {'x': 4, 'y': 4}
    """

    first: Child
    otherwise: Child | None = None

    def __init__(self, first: Child, otherwise: Child | None = None) -> None:
        _check_child(first)
        if otherwise is not None:
            _check_child(otherwise)
        object.__setattr__(self, "first", first)
        object.__setattr__(self, "otherwise", otherwise)

    def names(self) -> Iterator[str]:
        """Yield the names of the sources, nested ones too."""
        for child in (self.first, self.otherwise):
            if child is not None:
                yield from _names(child)

    def split(self, n: int, live: Collection[str], credits: Credits) -> dict[str, int]:
        """Give all ``n`` items to the first child that is live."""
        for child in (self.first, self.otherwise):
            if child is not None and any(name in live for name in _names(child)):
                return _split_child(child, n, live, credits)
        return {}

    def __repr__(self) -> str:
        return f"Prefer({self.first!r}, otherwise={self.otherwise!r})"


def _check_child(child: object) -> None:
    if not isinstance(child, (str, Strategy)):
        raise TypeError(f"a strategy is made of names of sources and of strategies, got {child!r}")


def _names(child: Child) -> Iterator[str]:
    if isinstance(child, str):
        yield child
    else:
        yield from child.names()


def _split_child(child: Child, n: int, live: Collection[str], credits: Credits) -> dict[str, int]:
    if not n:
        return {}
    return {child: n} if isinstance(child, str) else child.split(n, live, credits)


def _round(owed: Mapping[Child, float], n: int) -> dict[Child, int]:
    """Round shares to whole items that sum to ``n``. The largest remainders are rounded up, ties by position.

    Remainders are compared to nine digits, because floating-point thirds do not sum to one.
    """
    given = {child: max(0, math.floor(amount)) for child, amount in owed.items()}
    missing = n - sum(given.values())
    step = 1 if missing > 0 else -1
    for _ in range(abs(missing)):
        able = given if step > 0 else [child for child in given if given[child] > 0]
        child = max(able, key=lambda child: round((owed[child] - given[child]) * step, 9))
        given[child] += step
    return given
