"""The reader of a task: turns blocks of logs into typed metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from drainq.columns import parse_access_log
from drainq.metrics.arrays import integers, of_integers
from drainq.metrics.blocks import Task
from drainq.metrics.log_formats import bad_requests, table_of, unwrapped
from drainq.metrics.metric_types import METRICS, PERIODS, BadLines, JobMetric, LinesRead
from drainq.metrics.open_log import BOM

FIRST_ERROR = 400  # statuses from here on are errors
_TABLE_NAMES = {"size": "bytes", "agent": "user_agent"}


class Reader:
    """Turns blocks into metrics, and counts their lines.

    Args:
        check: called before each piece. Its exception ends the task.
    """

    def __init__(self, check: Callable[[], object] = bool) -> None:
        self._check = check

    def __call__(self, task: Task) -> Iterator[JobMetric | BadLines | LinesRead]:
        """Yield the metrics of one task's blocks."""
        for block in task:
            before = 0
            for piece in block.pieces():
                self._check()
                if block.begin == before == 0:
                    piece = piece.removeprefix(BOM)
                columns, bad = parse_access_log(unwrapped(piece, block.format), table_of(block.format))
                lines = len(columns) + len(bad)
                bad = bad_requests(bad, block.format)
                directives = lines - len(columns) - len(bad)
                if len(columns):
                    yield from metrics_of(with_keys(columns))
                if bad:
                    yield BadLines(block.source, block.begin, before, bad)
                yield LinesRead(block.source, block.begin, lines - directives, len(columns), directives)
                before += lines


def with_keys(records: pa.RecordBatch) -> pa.RecordBatch:
    """Rename the columns to those of the tables, and add each record's minute, hour, day and error flag."""
    second = integers(records["second"])
    more = {period: of_integers(second // length * length) for period, length in PERIODS.items()}
    more["errors"] = of_integers(integers(records["status"]) >= FIRST_ERROR)
    names = [_TABLE_NAMES.get(name, name) for name in records.schema.names]
    return pa.RecordBatch.from_arrays([*records.columns, *more.values()], names=[*names, *more])


def metrics_of(records: pa.RecordBatch) -> Iterator[JobMetric]:
    """Yield one object per metric type, with the records whose name is not null."""
    for metric in METRICS:
        columns = records
        for name in metric.names:
            if columns[name].null_count:
                columns = columns.filter(columns[name].is_valid())
        if columns.num_rows:
            yield metric(columns)
