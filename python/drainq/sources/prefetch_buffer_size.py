"""Buffer size: adapts the capacity of a buffer in front of a slow source.

A buffer hides the source's latency if it holds the items that are taken during one refill: capacity >= rate * latency.
Both numbers are unknown and change. So the capacity grows after a pull that found nothing during a refill, and shrinks
after many refills without such a pull.

Source: ``AUTOTUNE`` of tf.data grows its prefetch buffer by the same rule.
"""

from __future__ import annotations

import sys
from operator import index
from typing import Any

_CALM_REFILLS = 16
"""Refills in a row without an empty pull after which the capacity is halved."""


def check_sizes(capacity: Any, threshold: Any, max_capacity: Any) -> None:
    """Check the sizes of a buffer. Raise TypeError if one is no number, ValueError if they do not fit together."""
    for name, value in (("capacity", capacity), ("replenish_threshold", threshold), ("max_capacity", max_capacity)):
        optional = name == "max_capacity" and value is None
        if not optional and (isinstance(value, bool) or not isinstance(value, int)):
            raise TypeError(f"{name} must be a number of items, got {value!r}")
    if threshold < 0:
        raise ValueError(f"replenish_threshold must be >= 0, got {threshold}")
    if capacity <= threshold:
        raise ValueError(f"capacity must be > replenish_threshold ({threshold}), got {capacity}")
    if max_capacity is not None and max_capacity < capacity:
        raise ValueError(f"max_capacity must be >= capacity ({capacity}), got {max_capacity}")


def number_of_items(name: str, value: Any) -> int:
    """Return a number of items as an int that a native queue can take.

    Raises:
        TypeError: it is no whole number.
        ValueError: it is negative.
    """
    try:
        number = index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"{name} must be a number of items, got {value!r}")
    if number < 0:
        raise ValueError(f"{name} must be >= 0, got {value!r}")
    return min(number, sys.maxsize)


class AutoSize:
    """A capacity between two bounds, with its threshold. It has no lock.

    Args:
        smallest: the capacity to start with and never to go below.
        largest: the capacity never to exceed; equal to ``smallest`` for a fixed one.
        threshold: the number of items at which a refill starts at the smallest capacity. It grows with the capacity.

    Example:
        >>> size = AutoSize(100, 1000, threshold=25)
        >>> size.starved()
        >>> size.refilled()
        >>> size.capacity, size.threshold
        (200, 50)
    """

    def __init__(self, smallest: int, largest: int, *, threshold: int) -> None:
        self._smallest = smallest
        self._largest = largest
        self._smallest_threshold = threshold
        self._starved = False
        self._calm = 0
        self.capacity = smallest
        self.threshold = threshold

    def starved(self) -> None:
        """Record a pull that found nothing during a refill."""
        self._starved = True

    def refilled(self) -> None:
        """Record the end of a refill. The capacity may change."""
        if self._starved:
            self._resize(self.capacity * 2)
        else:
            self._calm += 1
            if self._calm >= _CALM_REFILLS:
                self._resize(self.capacity // 2)

    def _resize(self, capacity: int) -> None:
        self._starved = False
        self._calm = 0
        self.capacity = max(self._smallest, min(self._largest, capacity))
        self.threshold = self._smallest_threshold * self.capacity // self._smallest
