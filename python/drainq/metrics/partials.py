"""The merge of the tasks' partial results, in slices that fit into memory.

1. Each group is in one slice, and a slice has each group once.
2. Slices are ordered by name, and the rows of a slice by key, so a table's index is written in ascending order.
3. About ``MOST_ROWS`` rows of the tasks are held at once, or more if a single name has more.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drainq.metrics.arrays import integers, of_integers, of_texts
from drainq.metrics.handlers import Spooled
from drainq.metrics.metric_types import JobMetric

MOST_ROWS = 250_000  # rows before the merge; the next slice is merged while one is written
_SAMPLED = 1_000  # names of a batch from which the cuts are chosen


def batches(files: Sequence[Spooled]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of some files."""
    for file in files:
        opened = pa.BufferReader if isinstance(file.written, bytes) else pa.memory_map
        with opened(file.written) as raw, pa.ipc.open_stream(raw) as stream:
            yield from stream


def slices(metric: type[JobMetric], files: Sequence[Spooled], *, most: int = MOST_ROWS) -> Iterator[pa.Table]:
    """Yield the merged groups of a metric, slice by slice, with times as texts."""
    parts = -(-sum(file.rows for file in files) // most) if metric.names else 1
    for low, high in pairwise([None, *_cuts(metric, files, parts), None]):
        groups = metric.groups()
        for batch in batches(files):
            groups.merge(batch if parts <= 1 else _between(batch, metric.names[0], low, high))
        if len(groups):
            yield in_order(metric, groups.take())


def _cuts(metric: type[JobMetric], files: Sequence[Spooled], parts: int) -> list[Any]:
    """Choose names that cut the rows into parts of about the same size."""
    if parts <= 1:
        return []
    sampled = []
    for batch in batches(files):
        names = batch[metric.names[0]]
        sampled.append(names.take(pa.array(range(0, len(names), max(1, len(names) // _SAMPLED)))))
    ordered = pa.chunked_array(sampled).combine_chunks().sort().to_pylist()
    return sorted({ordered[len(ordered) * part // parts] for part in range(1, parts)})


def _between(batch: pa.RecordBatch, name: str, low: Any, high: Any) -> pa.RecordBatch:
    """Return the rows with ``low <= name < high``; None is no limit."""
    if low is not None:
        batch = batch.filter(pc.greater_equal(batch[name], low))
    return batch if high is None else batch.filter(pc.less(batch[name], high))


def in_order(metric: type[JobMetric], groups: pa.RecordBatch) -> pa.Table:
    """Sort groups by their keys."""
    columns = dict(zip(groups.schema.names, groups.columns))
    ranks = []
    for key in metric.keys():
        values, places = _distinct(columns[key])
        order = np.argsort(values) if isinstance(values, np.ndarray) else integers(pc.sort_indices(values))
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        ranks.append(rank[places])
        if key == metric.period:
            texts = of_texts([iso(int(second), key) for second in values])
            columns[key] = texts.take(of_integers(places))
    order = np.lexsort(ranks[::-1])
    return pa.table(columns).take(of_integers(order))


def _distinct(column: pa.Array) -> tuple[Any, Any]:
    """Return the distinct values, and for each row the place of its value among them."""
    if pa.types.is_integer(column.type):
        return np.unique(integers(column), return_inverse=True)
    encoded = column.dictionary_encode()
    return encoded.dictionary, integers(encoded.indices)


def iso(second: int, period: str) -> str:
    """Format the beginning of a period as ISO 8601 in UTC: ``2015-05-17T10:05:00Z``, or ``2015-05-17`` for a day.

    Example:
        >>> iso(0, "minute"), iso(86400, "day")
        ('1970-01-01T00:00:00Z', '1970-01-02')
    """
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=second)
    return moment.date().isoformat() if period == "day" else f"{moment.isoformat(timespec='seconds')}Z"
