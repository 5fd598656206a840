"""DrainqDataSource: the class that Spark registers as ``drainq``."""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource

from drainq.datasource.columns import form_read, form_written, read_schema
from drainq.datasource.options import Options
from drainq.datasource.peek_reader import PeekReader
from drainq.datasource.stream_reader import StreamReader
from drainq.datasource.writer import FrameWriter, StreamWriter


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
            ValueError: the mode is ``overwrite``, or a column is not one of a message.
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
