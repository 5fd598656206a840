"""What Spark calls to read a queue as it stands, without taking a message: ``spark.read``.

A batch reader is never called back when the query has ended, so nothing can be acknowledged from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from drainq.datasource.columns import record_batches
from drainq.datasource.options import Options
from drainq.datasource.payload_form import PayloadForm
from drainq.delayed.message import MOST_MESSAGES
from drainq.delayed.queue import DelayedQueue


class PeekReader(DataSourceReader):
    """The first messages by due time, due or not, on loan or not.

    Args:
        options: the data source's.
        form: of the payloads.
        names: of the columns.
    """

    def __init__(self, options: Options, form: PayloadForm, names: Sequence[str]) -> None:
        self._options, self._form, self._names = options, form, names

    def partitions(self) -> Sequence[InputPartition]:
        """One: the messages have an order."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The messages as record batches."""
        options = self._options
        with DelayedQueue.open(options.url, options.queue, codec=self._form.codec, table=options.table) as queue:
            rows = queue.peek(options.max_rows or MOST_MESSAGES)
        yield from record_batches(((row.key, row.payload, row.scheduled_at) for row in rows), self._names, self._form)
