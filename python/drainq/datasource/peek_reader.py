"""PeekReader: reads a queue for ``spark.read``, without taking a message.

Spark does not call a batch reader when the query has ended, so it could not acknowledge messages.
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
    """Reads the first messages by due time: due or not, leased or not.

    Args:
        options: the data source's.
        form: of the payloads.
        names: of the columns.
    """

    def __init__(self, options: Options, form: PayloadForm, names: Sequence[str]) -> None:
        self._options, self._form, self._names = options, form, names

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition, because the messages have an order."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the messages as record batches."""
        options = self._options
        with DelayedQueue.open(options.url, options.queue, codec=self._form.codec, table=options.table) as queue:
            rows = queue.peek(options.max_rows or MOST_MESSAGES)
        yield from record_batches(((row.key, row.payload, row.scheduled_at) for row in rows), self._names, self._form)
