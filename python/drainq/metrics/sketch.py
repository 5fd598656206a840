"""Percentiles of request times from counts in buckets: small, mergeable, of known error.

Bucket ``i`` counts the times in ``(FLOOR_MS * GAMMA**(i-1), FLOOR_MS * GAMMA**i]``; bucket 0 those up to
``FLOOR_MS``. Each bucket is answered by one value that is off by at most ``RELATIVE_ERROR`` from everything in it.
Merging two sketches is adding their counts, in memory, in Spark and in SQL alike, so a sketch is stored as
rows and stays exact about ranks over any number of loads.

1. ``bucket`` never decreases with the time, so ranks survive.
2. ``|value(bucket(ms)) - ms| <= RELATIVE_ERROR * ms`` for every ``ms > FLOOR_MS``.

Source: Masson, Rim, Lee, "DDSketch: a fast and fully-mergeable quantile sketch with relative-error guarantees",
VLDB 2019.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

RELATIVE_ERROR = 0.01
GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
FLOOR_MS = 0.001  # one microsecond, the finest that servers log
PERCENTILES = (50, 90, 99)


def buckets(milliseconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """The bucket of each time."""
    above = np.maximum(milliseconds, FLOOR_MS) / FLOOR_MS
    # a time on a bucket's edge may land on either side of it by rounding; the error bound holds on both
    return np.ceil(np.log(above) / math.log(GAMMA)).astype(np.int64)


def value(bucket: int) -> float:
    """The time in milliseconds that stands for a bucket."""
    if bucket == 0:
        return FLOOR_MS
    return float(FLOOR_MS * 2 * GAMMA**bucket / (GAMMA + 1))


def percentiles(counts: Iterable[tuple[int, int]], wanted: Sequence[int] = PERCENTILES) -> list[float | None]:
    """The smallest times that at least ``wanted`` percent of the requests did not exceed.

    Args:
        counts: (bucket, requests) in any order; a bucket may come more than once.
        wanted: percents from 0 to 100, rising.
    Returns:
        Milliseconds, one for each; None without requests.

    Example:
        >>> import numpy as np
        >>> b = buckets(np.arange(1.0, 101.0))
        >>> [round(p) for p in percentiles((int(i), 1) for i in b)]
        [50, 90, 100]
    """
    ordered = sorted(counts)
    total = sum(requests for _, requests in ordered)
    if not total:
        return [None] * len(wanted)
    found: list[float | None] = []
    seen, place = 0, -1
    for percent in wanted:
        rank = max(1, -(-total * percent // 100))  # rounded up, in whole numbers
        while seen < rank:
            place += 1
            seen += ordered[place][1]
        found.append(value(ordered[place][0]))
    return found
