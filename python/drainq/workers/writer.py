"""BatchWriter: writes rows into a table, batch by batch. A bad row does not fail its batch.

1. A batch is one transaction, which writes all rows except those whose values the database refuses.
2. While the database fails (it cannot be reached, is read-only, full or locked) the drain thread waits and tries again,
   for up to ``retry_for`` seconds. The queue fills, and producers wait or are refused.
3. A missing table, right or unique index makes the constructor raise. If it goes missing later, the writer stops.
4. Given-up rows go to the delayed queue, if there is one, and the writer sends them again from there.
5. Rows of one key go through one drain thread, so the last one wins. An older row in the delayed queue never replaces a
   newer one.

Source: ``JDBCBatchDAO`` and ``BatchSQLExecutor`` in SkyWalking, where a failing group is logged and lost.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from drainq._native import PartitionSelector
from drainq.arguments import helpful, whole
from drainq.delivery.options import options_of
from drainq.delivery.sending_worker import SendingWorker
from drainq.sql import DatabaseUrl, Upsert
from drainq.workers.sql_sink import TableSink

if TYPE_CHECKING:
    from typing_extensions import TypeVar, Unpack

    from drainq.delivery.options import SendingSettings

    Row = TypeVar("Row", bound=Sequence[Any], default=Any)
else:
    from typing import TypeVar

    Row = TypeVar("Row")


class BatchWriter(SendingWorker[Row]):
    """Write tuples into a table.

    Args:
        url: ``sqlite:///relative.db``, ``sqlite:////absolute.db`` or ``postgresql://user@host/db``.
        table: an existing table.
        columns: the names of an item's values; an item is a tuple in this order.
        key: the columns that identify a row: a row replaces an existing one with equal columns. The table needs a
            primary key or unique index on them, whose rules decide which keys are equal. None: every row is inserted.
        threads: drain threads, each with its own connection. With several, write the values of a key in one form: rows
            whose keys only the database finds equal, such as ``1`` and ``"1"``, have no order.
        settings: ``queue``, ``weight``, ``options``, and the fields of :class:`WorkerOptions`.
    Raises:
        ValueError: the URL or a column is not known, or ``threads`` is below 1.
        DatabaseError: the database cannot be opened, or has no such table, columns, or unique index on the key.

    Example:
        >>> from drainq.sql import Database
        >>> with Database("sqlite:///example.db") as database:
        ...     _ = database.execute("CREATE TABLE IF NOT EXISTS seen (id INTEGER PRIMARY KEY, what TEXT)")
        >>> with BatchWriter(url="sqlite:///example.db", table="seen", columns=["id", "what"], key=["id"]) as writer:
        ...     writer.produce((1, "a"))
        True
    """

    _item_types = (tuple,)

    @helpful
    def __init__(
        self,
        *,
        url: str | DatabaseUrl,
        table: str,
        columns: Sequence[str],
        key: Sequence[str] | None = None,
        threads: int = 1,
        **settings: Unpack[SendingSettings],
    ) -> None:
        threads, _ = whole("threads", threads, least=1), options_of(self, settings)  # before the database is asked
        upsert = Upsert(table, columns, key=() if key is None else key)
        self._places = [upsert.columns.index(column) for column in upsert.key]
        super().__init__(
            TableSink(url, upsert),
            default_name=f"batch-writer/{table}",
            threads=threads,
            key_of=self._key_of if key else None,
            **settings,
        )

    def _key_of(self, row: Any) -> Hashable:
        return tuple([row[place] for place in self._places])

    def _queue_settings(self) -> dict[str, Any]:
        settings = super()._queue_settings()
        if self._places and self._threads > 1:  # one thread keeps the order of all rows
            settings["partition_selector"] = PartitionSelector.by(itemgetter(*self._places))
        return settings
