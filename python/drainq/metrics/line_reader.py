"""From lines to typed metrics: what a task puts into its queue."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drainq.metrics import sketch
from drainq.metrics.columns import Columns, parse_lines
from drainq.metrics.types import (
    BadLine,
    ClientHour,
    EndpointMinute,
    JobMetric,
    LatencyMinute,
    LinesRead,
    ReferrerDay,
    ServiceMinute,
    StatusMinute,
    UserAgentDay,
)

FIRST_ERROR = 400  # statuses from here on are errors
_NUMBER = re.compile(r"\d+")


class Reader:
    """Turns batches of lines into metrics, counting each block's lines on the way. One per task.

    A batch has the columns ``line`` (binary), ``file`` (its name begins with the source's number) and ``block``
    (where the file's block begins). A task may get several blocks, of several files, one after the other.
    """

    def __init__(self) -> None:
        self._lines: dict[tuple[int, int], int] = {}

    def __call__(self, batch: pa.RecordBatch) -> Iterator[JobMetric | BadLine | LinesRead]:
        """The metrics of one batch."""
        for begin, end in _runs(batch):
            source = source_of(batch["file"][begin].as_py())
            block = batch["block"][begin].as_py()
            before = self._lines.get((source, block), 0)
            groups, bad = parse_lines(batch["line"].slice(begin, end - begin))
            for columns in groups:
                yield from metrics_of(columns)
            for place, line, reason in bad:
                yield BadLine(source, block, before + place + 1, line, reason)
            self._lines[source, block] = before + end - begin
            yield LinesRead(source, block, end - begin, sum(map(len, groups)))


def source_of(file: str) -> int:
    """The number that a file's name begins with."""
    found = _NUMBER.match(file)
    if not found:
        raise ValueError(f"a source's file name begins with its number, got {file!r}")
    return int(found[0])


def metrics_of(columns: Columns) -> Iterator[JobMetric]:
    """The typed metrics of some records, one object per type."""
    records = len(columns)
    minute = pa.array(columns.second // 60 * 60)
    hour = pa.array(columns.second // 3600 * 3600)
    one = pa.array(np.ones(records, dtype=np.int64))
    counts = {
        "requests": one,
        "bytes": pa.array(columns.size),
        "errors": pa.array((columns.status >= FIRST_ERROR).astype(np.int64)),
    }
    yield ServiceMinute(pa.table({"time": minute, **counts}), records)
    yield EndpointMinute(pa.table({"name": columns.endpoint, "time": minute, **counts}), records)
    yield StatusMinute(pa.table({"number": pa.array(columns.status), "time": minute, "requests": one}), records)
    yield ClientHour(pa.table({"name": columns.client, "time": hour, **counts}), records)
    if len(columns.named):
        day = pa.array(columns.second[columns.named] // 86400 * 86400)
        named = one.slice(0, len(columns.named))
        yield UserAgentDay(pa.table({"name": columns.agent, "time": day, "requests": named}), len(named))
        yield ReferrerDay(pa.table({"name": columns.referrer, "time": day, "requests": named}), len(named))
    if len(columns.timed):
        timed = pa.array(columns.timed)
        rows = {
            "name": columns.endpoint.take(timed),
            "number": pa.array(sketch.buckets(columns.milliseconds)),
            "time": minute.take(timed),
            "requests": one.slice(0, len(timed)),
        }
        yield LatencyMinute(pa.table(rows), len(timed))


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """The stretches of a batch that come from one block, as (begin, end)."""
    length = batch.num_rows
    if not length:
        return
    block: NDArray[np.int64] = batch["block"].to_numpy()
    changed = block[1:] != block[:-1]
    file = batch["file"]
    if file[0] != file[length - 1]:  # only blocks at the same place, such as 0, tell files apart by name alone
        number = file.dictionary_encode().indices.to_numpy()
        changed |= number[1:] != number[:-1]
    bounds = [0, *(np.flatnonzero(changed) + 1).tolist(), length]
    yield from itertools.pairwise(bounds)
