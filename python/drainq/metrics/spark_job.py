"""Reading logs with Spark, through either of its doors, into merged partial rows.

``mapInArrow`` hands a task whole Arrow batches and is the default; ``rdd.mapPartitions`` hands it one row object
per line, several times slower, for those whose data is an RDD. Both run the same code in the task.

1. One Spark job: nothing in it is run twice on purpose, and Spark counts the rows of one attempt per task.
2. Lines end with ``\\n`` alone, as for ``grep -n`` and editors; a ``\\r`` before it belongs to the line end.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from drainq.metrics import partial_rows
from drainq.metrics.line_reader import Reader
from drainq.metrics.merge_by_key import make_handlers
from drainq.metrics.types import METRICS, records_of
from drainq.spark.aggregate import aggregate, merged, partition_fn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from drainq._native import BatchQueueStats

ROWS_A_BATCH = 20_000  # lines; about 5 MB
RECORDS_QUEUED = 2 * len(METRICS) * ROWS_A_BATCH  # metrics of two Arrow batches: one being merged, one waiting
_LINES = pa.schema([("line", pa.binary()), ("file", pa.string()), ("block", pa.int64())])


class Door(enum.Enum):
    """Which of Spark's ways into Python is taken."""

    ARROW = "arrow"
    RDD = "rdd"


def read(spark: SparkSession, directory: str, door: Door) -> pa.Table:
    """Read every log that is linked in a directory.

    Args:
        spark: a session whose workers can import drainq.
        directory: what :func:`drainq.metrics.log_files.link` filled.
    Returns:
        Merged rows of :data:`drainq.metrics.partial_rows.SCHEMA`.
    """
    from pyspark.sql import functions as F

    lines = (
        spark.read.option("lineSep", "\n")
        .text(directory)
        .select(
            F.col("value").cast("binary").alias("line"),
            F.col("_metadata.file_name").alias("file"),
            F.col("_metadata.file_block_start").alias("block"),
        )
    )
    sums = dict.fromkeys(partial_rows.SUMS, "sum")
    if door is Door.ARROW:
        return aggregate(
            lines, make_handlers, schema=partial_rows.SPARK_SCHEMA, rows="arrow", items=Reader, stats=queue_rows,
            capacity=RECORDS_QUEUED, len_of=records_of, merge=sums,
        ).toArrow()  # fmt: skip
    function = partition_fn(
        make_handlers, rows="arrow", items=Reader, stats=queue_rows, capacity=RECORDS_QUEUED, len_of=records_of
    )

    def tuples(rows: Iterator[Any]) -> Iterator[tuple[Any, ...]]:
        for batch in function(batches(rows)):
            yield from zip(*(column.to_pylist() for column in batch.columns))

    return merged(_frame(spark, lines, tuples), sums).toArrow()


def _frame(spark: SparkSession, lines: DataFrame, function: Any) -> DataFrame:
    return spark.createDataFrame(lines.rdd.mapPartitions(function), partial_rows.SPARK_SCHEMA, verifySchema=False)


def batches(rows: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    """Row objects (line, file, block) as record batches."""
    waiting = iter(rows)
    while chunk := list(itertools.islice(waiting, ROWS_A_BATCH)):
        lines, files, blocks = zip(*chunk)
        arrays = [pa.array(lines, pa.binary()), pa.array(files, pa.string()), pa.array(blocks, pa.int64())]
        yield pa.RecordBatch.from_arrays(arrays, schema=_LINES)


def counters(stats: BatchQueueStats) -> dict[str, int]:
    """A queue's counters by name."""
    return {
        "offered": stats.offered,
        "accepted": stats.accepted,
        **{f"rejected_{reason}": count for reason, count in stats.rejected.items()},
        **{
            name: getattr(stats, name)
            for name in ("handled", "failed", "unrouted", "dead_lettered", "abandoned", "queued")
        },
    }


def queue_rows(stats: BatchQueueStats, handlers: dict[type, Any]) -> Iterator[pa.RecordBatch]:
    """A task's own counters as rows: the queue's, and how long the handlers were busy."""
    counted = counters(stats)
    yield partial_rows.rows(partial_rows.QUEUE, len(counted), name=list(counted), requests=list(counted.values()))
    busy = round(1e6 * sum(getattr(handler, "busy", 0.0) for handler in handlers.values()))
    yield partial_rows.rows(partial_rows.BUSY, 1, name=["merge in tasks (L1)"], requests=[busy])
