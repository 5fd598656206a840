"""DrainqDataSource: the class that Spark registers as ``drainq``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from drainq.datasource.columns import form_read, form_written, read_schema, record_batches
from drainq.datasource.options import Options
from drainq.datasource.payload_form import PayloadForm
from drainq.datasource.stream_reader import StreamReader
from drainq.datasource.writer import FrameWriter, StreamWriter
from drainq.delayed.message import MOST_MESSAGES, to_ms
from drainq.delayed.queue import DelayedQueue


class PeekReader(DataSourceReader):
    """Reads the first messages by due time, due or not, leased or not, and takes none of them.

    Spark does not call a batch reader when the query has ended, so the reader could not acknowledge messages.

    Args:
        options: the data source's.
        form: the payloads' form.
        names: the columns' names.
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
        yield from record_batches(
            ((row.key, row.payload, to_ms(row.scheduled_at)) for row in rows), self._names, self._form
        )


class DrainqDataSource(DataSource):
    """A delayed queue as a data source, in an SQLite file or a PostgreSQL database.

    ``spark.dataSource.register(DrainqDataSource)`` or :func:`drainq.spark.register` registers it. The options and
    promises are in ``docs/howto/spark_data_source.md``.

    Example:
        >>> spark.dataSource.register(DrainqDataSource)  # doctest: +SKIP
        >>> df.write.format("drainq").mode("append").options(url=url, queue="mail").save()  # doctest: +SKIP
    """

    @classmethod
    def name(cls) -> str:
        """Return ``drainq``."""
        return "drainq"

    def schema(self) -> str:
        """Return the columns to read."""
        return read_schema(self._read().payload)

    def reader(self, schema: Any) -> PeekReader:
        """Read the queue's messages without taking them."""
        options = self._read()
        return PeekReader(options, form_read(schema, options.payload), schema.names)

    def streamReader(self, schema: Any) -> StreamReader:
        """Read the queue's due messages, each once.

        Raises:
            ValueError: there is no option ``consumer``.
        """
        options = self._read()
        if not options.consumer:
            raise ValueError(
                "a streaming read needs .option('consumer', NAME): what this query has read is kept under that name"
            )
        return StreamReader(options, form_read(schema, options.payload), schema.names)

    def writer(self, schema: Any, overwrite: bool) -> FrameWriter:
        """Write the rows of a DataFrame as messages.

        Raises:
            ValueError: the mode is ``overwrite``, or a column is not a column of messages.
        """
        if overwrite:
            raise ValueError("a queue is not overwritten: use .mode('append'); drop_all_messages() empties it")
        options = self._read()
        writer = FrameWriter(options, form_written(schema, options.payload))
        writer.prepare()
        return writer

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:
        """Write each micro-batch as messages.

        Raises:
            ValueError: the output mode replaces rows, there is an option ``writeId``, or a column is wrong.
        """
        options = self._read()
        if overwrite:
            raise ValueError("a queue is not overwritten: use .outputMode('append') or 'update'")
        if options.write_id is not None:
            raise ValueError("writeId is for batch writes: a streaming query has an id of its own")
        writer = StreamWriter(options, form_written(schema, options.payload))
        writer.prepare()
        return writer

    def _read(self) -> Options:
        return Options.of(self.options)
