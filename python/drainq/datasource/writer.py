"""Writers of the data source: tasks stage rows, and the driver publishes them.

1. Spark makes a new writer for each micro-batch, and calls ``commit`` in another process than ``write``, so the
   messages hold all that ``commit`` needs. Spark's ids of query and batch name a streaming batch.
2. ``commit`` publishes the rows that the messages name, once. If Spark crashes before it has recorded
   the call, it calls ``commit`` again.
3. ``abort`` deletes only staged rows, because it may be called after a ``commit`` that did publish.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from drainq.datasource.columns import messages
from drainq.datasource.options import Options
from drainq.datasource.payload_form import PayloadForm
from drainq.datasource.stage import StagedRows
from drainq.datasource.tables import Tables
from drainq.datasource.transactions import Transactions
from drainq.delayed.queue import DelayedQueue
from drainq.sql.url import DatabaseUrl

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as _StreamWriterBase
except ImportError:  # PySpark 4.0 hands rows to a streaming writer
    from pyspark.sql.datasource import (  # type: ignore[assignment]
        DataSourceStreamWriter as _StreamWriterBase,
    )

_log = logging.getLogger("drainq")


@dataclass
class Staged(WriterCommitMessage):
    """The message of a task attempt: its token, its number of rows, and for a stream its query."""

    token: str
    rows: int
    query_id: str | None


class Writing:
    """The base of both writers.

    Args:
        options: the data source's.
        form: the payloads' form.
    """

    def __init__(self, options: Options, form: PayloadForm) -> None:
        self._options, self._form = options, form
        self._tables = Tables(options.table, DatabaseUrl.parse(options.url).dialect)

    def prepare(self) -> None:
        """Connect to the database and create missing tables. Called in the driver, before tasks start."""
        with self._open_queue(), Transactions(self._options.url) as transactions:
            transactions.run(self._tables.create)

    def _open_queue(self) -> Any:
        options = self._options
        return DelayedQueue.open(options.url, options.queue, codec=self._form.codec, table=options.table)

    def _stage(self, rows: Iterable[Any], *, write_id: str, batch: int, query_id: str | None) -> Staged:
        token, staged, stage = uuid.uuid4().hex, 0, StagedRows(self._tables)
        with Transactions(self._options.url) as transactions:
            for some in messages(rows, self._form):
                first = staged
                transactions.run(
                    lambda database: stage.add(database, token, first, some, write_id=write_id, batch=batch)  # noqa: B023
                )
                staged += len(some)
        return Staged(token, staged, query_id)

    def _publish(self, staged: Sequence[Any], *, published_as: tuple[str, int], staged_as: str) -> None:
        tokens = [(message.token, message.rows) for message in staged if message is not None]
        stage = StagedRows(self._tables)
        with self._open_queue() as queue, Transactions(self._options.url) as transactions:
            is_new = transactions.run(
                lambda database: stage.publish(
                    database,
                    queue,
                    tokens,
                    published_as=published_as,
                    staged_as=staged_as,
                    update=self._options.update,
                )
            )
        if not is_new:
            _log.info("write %s, batch %d: published before, and not again", *published_as)

    def _forget(self, staged: Sequence[Any], staged_as: str | None) -> None:
        tokens = [message.token for message in staged if message is not None]
        with Transactions(self._options.url) as transactions:
            transactions.run(lambda database: StagedRows(self._tables).forget(database, tokens, staged_as))


class FrameWriter(Writing, DataSourceArrowWriter):
    """The writer of ``df.write``. It publishes when all tasks have succeeded."""

    def __init__(self, options: Options, form: PayloadForm) -> None:
        super().__init__(options, form)
        self._staged_as = uuid.uuid4().hex
        self._name = self._staged_as if options.write_id is None else f"write/{options.write_id}"

    def write(self, iterator: Any) -> Staged:
        """Stage the rows of a task."""
        return self._stage(iterator, write_id=self._staged_as, batch=0, query_id=None)

    def commit(self, messages: Any) -> None:
        """Publish the rows."""
        self._publish(messages, published_as=(self._name, 0), staged_as=self._staged_as)

    def abort(self, messages: Any) -> None:
        """Delete the staged rows of all tasks, also of those that failed."""
        self._forget(messages, self._staged_as)


class StreamWriter(Writing, _StreamWriterBase):
    """The writer of ``df.writeStream``. It publishes each micro-batch when its tasks have succeeded."""

    def write(self, iterator: Any) -> Staged:
        """Stage the rows of a task."""
        context = TaskContext.get()
        assert context is not None, "Spark calls this in a task"
        query_id = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        assert query_id is not None and batch is not None, "Spark names the query and the batch of a stream"
        return self._stage(iterator, write_id=query_id, batch=int(batch), query_id=query_id)

    def commit(self, messages: Any, batchId: int) -> None:
        """Publish a micro-batch."""
        names = {message.query_id for message in messages if message is not None}
        for name in names:  # one, or none if the batch had no task
            self._publish(messages, published_as=(name, batchId), staged_as=name)

    def abort(self, messages: Any, batchId: int) -> None:
        """Delete the rows of finished tasks. The next batch of the query deletes the rest."""
        self._forget(messages, None)
