"""L2: merge rows in memory, then into a table by one upsert statement.

Source: ``MetricsPersistentWorker`` and ``PersistenceTimer`` in SkyWalking: every few seconds it reads the stored rows,
merges, and writes them back. Here the database merges, so several writers can share a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drainq._native import BatchQueue
from drainq.clock import Clock
from drainq.fork import leave_to_parent
from drainq.sql import Database, DatabaseError, DatabaseUrl, Merge, Upsert
from drainq.sql.errors import one_line
from drainq.workers.worker import Worker

ROWS_A_STATEMENT = 20_000  # rows of one upsert; a flush is one transaction however many there are


class MetricsPersister(Worker):
    """Merge rows by key and write them at each flush, in one transaction.

    A flush that fails writes nothing; its rows are kept, merged with what comes, and written by the next. A connection
    that broke is opened again. If it broke during COMMIT, the commit may or may not have gone through; the rows are
    then written again, and sums may count them twice.

    Args:
        url: ``sqlite:///relative.db``, ``sqlite:////absolute.db`` or ``postgresql://user@host/db``.
        table: the table; it exists, with a primary key or unique index on ``key``.
        columns: the names of an item's values; an item is a tuple in this order.
        key: the columns that identify a row.
        merge: column -> ``"sum"``, ``"max"``, ``"min"`` or ``"last"``; a column that is not named takes the last value.
        flush_interval: seconds between flushes; None: only ``flush`` and ``close``.
        queue, clock: as for every :class:`~drainq.workers.worker.Worker`.
    Raises:
        ValueError: the URL, a column or a rule is not known.
        DatabaseError: the database cannot be opened.

    Example:
        >>> from drainq.sql import Database
        >>> with Database("sqlite:///example.db") as database:
        ...     _ = database.execute("CREATE TABLE IF NOT EXISTS hits (page TEXT PRIMARY KEY, n INTEGER)")
        >>> with MetricsPersister(
        ...     url="sqlite:///example.db", table="hits", columns=["page", "n"], key=["page"], merge={"n": "sum"}
        ... ) as hits:
        ...     hits.produce_many([("/", 1), ("/", 2)])
        2
    """

    def __init__(
        self,
        *,
        url: str | DatabaseUrl,
        table: str,
        columns: Sequence[str],
        key: Sequence[str],
        merge: Mapping[str, str | Merge],
        flush_interval: float | None = 5.0,
        queue: BatchQueue | None = None,
        clock: Clock | None = None,
    ) -> None:
        if not key:
            raise ValueError(f"key must name the columns that identify a row, got {list(key)!r}")
        self._upsert = Upsert(table, columns, key=key, merge=merge)
        super().__init__(queue=queue, flush_interval=flush_interval, clock=clock)
        self._database: Database | None = Database(url)
        self._url = self._database.url
        self._rows: list[Sequence[Any]] = []
        self._merge_at = ROWS_A_STATEMENT

    def _forget(self) -> None:
        leave_to_parent(self._database, self._rows)
        self._database, self._rows, self._merge_at = None, [], ROWS_A_STATEMENT

    def _take(self, batch: list[Any]) -> None:
        width = len(self._upsert.columns)
        for row in batch:
            if len(row) != width:
                raise ValueError(
                    f"a row needs {width} values for the columns {list(self._upsert.columns)!r}, got {row!r}"
                )
        self._rows += batch
        if len(self._rows) > self._merge_at:
            self._rows = self._upsert.merged(self._rows)
            self._merge_at = max(ROWS_A_STATEMENT, 2 * len(self._rows))

    def _emit(self) -> None:
        if not self._rows:
            return
        self._rows = self._upsert.merged(self._rows)
        if self._database is None:
            self._database = Database(self._url)
        try:
            with self._database.transaction():
                for start in range(0, len(self._rows), ROWS_A_STATEMENT):
                    self._upsert.write(self._database, self._rows[start : start + ROWS_A_STATEMENT])
        except self._database.errors as error:
            self._release()  # the connection may be what is broken
            raise DatabaseError(
                f"{self._url} refused {len(self._rows)} rows for {self._upsert.table!r}: {one_line(error)}"
            ) from error
        self._rows, self._merge_at = [], ROWS_A_STATEMENT

    def _release(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
