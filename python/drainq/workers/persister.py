"""MetricsPersister: merges rows by key in memory, and then into a table by upserts.

1. A flush is one transaction. It writes all rows except those that the database refuses.
2. A row is refused if it is too old. It is refused and logged if it has NaN in a column that is added or compared.
3. Draining does not wait for the database: see :mod:`drainq.workers.buffered_worker`.

Source: ``MetricsPersistentWorker`` and ``PersistenceTimer`` in SkyWalking: every few seconds they read the stored rows,
merge, and write them back. Here the database merges, so several writers can share a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drainq.arguments import Seconds, helpful, seconds_or_none
from drainq.callables import check_callable
from drainq.delivery.accounting import Outcome
from drainq.delivery.options import options_of
from drainq.delivery.sink_contract import Attempt, Sink
from drainq.errors import UnfitItem
from drainq.fork import leave_to_parent
from drainq.sql import DatabaseUrl, Merge, Upsert
from drainq.workers.buffered_worker import MAX_ROWS, Buffered
from drainq.workers.holding_worker import log
from drainq.workers.sql_sink import TableSink, no_row
from drainq.workers.writer import Row

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from drainq.delivery.options import SendingSettings

ROWS_A_STATEMENT = 20_000  # held rows above which the rows are merged; again when their number has doubled
_ITEMS = ""  # a column after the table's: the number of items that a row stands for


class MetricsPersister(Buffered[Row]):
    """Merge rows by key and write them at each flush, in one transaction.

    If a connection breaks during COMMIT, the database is asked whether the rows are stored, and only missing rows are
    written again. So sums stay exact, unless a replica took over meanwhile: then ``stats().unknown`` counts the items.

    Args:
        url: ``sqlite:///relative.db``, ``sqlite:////absolute.db`` or ``postgresql://user@host/db``.
        table: an existing table with a primary key or unique index on ``key``.
        columns: the names of an item's values; an item is a tuple in this order.
        key: the columns that identify a row.
        merge: column -> ``"sum"``, ``"max"``, ``"min"`` or ``"last"``; any other column takes the last value.
        flush_interval: seconds between flushes; None: flush only when full, and in ``flush`` and ``close``.
        max_rows: the number of held rows above which draining flushes and waits for the database.
        time: maps a row to its time, in seconds since the epoch; needed with ``expire_after``.
        expire_after: seconds after which a row is refused and counted as ``expired``.
        settings: ``queue``, ``weight``, ``options``, and the fields of :class:`WorkerOptions`.
    Raises:
        ValueError: the URL, a column or a rule is not known.
        DatabaseError: the database cannot be opened, or has no such columns or unique index on the key. A missing table
            is reported by the first ``produce``.

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

    _item_types = (tuple,)

    @helpful
    def __init__(
        self,
        *,
        url: str | DatabaseUrl,
        table: str,
        columns: Sequence[str],
        key: Sequence[str],
        merge: Mapping[str, str | Merge],
        flush_interval: Seconds | None = 5.0,
        max_rows: int = MAX_ROWS,
        time: Callable[[Row], float] | None = None,
        expire_after: Seconds | None = None,
        **settings: Unpack[SendingSettings],
    ) -> None:
        if time is not None:
            check_callable("time", time, "row")
        flush_interval, _ = seconds_or_none("flush_interval", flush_interval), options_of(self, settings)
        expire_after = seconds_or_none("expire_after", expire_after)
        if (time is None) != (expire_after is None):
            raise ValueError(f"time and expire_after belong together, got time={time!r}, expire_after={expire_after!r}")
        self._upsert = Upsert(table, columns, key=key, merge=merge)
        if not self._upsert.key:
            raise ValueError(f"key must name the columns that identify a row, got {key!r}")
        self._counting = Upsert(table, [*columns, _ITEMS], key=key, merge={**self._upsert.merge, _ITEMS: Merge.SUM})
        self._numbers = [
            place
            for place, column in enumerate(columns)
            if self._upsert.merge.get(column, Merge.LAST) is not Merge.LAST
        ]
        self._time, self._expire_after = time, expire_after
        self._rows: list[Any] = []  # each with the number of items that it stands for
        self._merge_at = ROWS_A_STATEMENT
        self._table_sink = TableSink(url, self._upsert, may_be_missing=True)
        rules = {column: self._upsert.merge.get(column, Merge.LAST) for column in columns if column not in key}
        older = {column: Merge.FIRST if rule is Merge.LAST else rule for column, rule in rules.items()}
        places = [self._upsert.columns.index(column) for column in self._upsert.key]
        super().__init__(
            _Counted(self._table_sink),
            f"metrics-persister/{table}",
            size=_items,
            max_rows=max_rows,
            key_of=(lambda row: tuple([row[place] for place in places])) if Merge.LAST in rules.values() else None,
            older_sink=_Counted(self._table_sink, Upsert(table, columns, key=key, merge=older)),
            flush_interval=flush_interval,
            **settings,
        )

    def _forget(self) -> None:
        super()._forget()
        leave_to_parent(self._rows)
        self._rows, self._merge_at = [], ROWS_A_STATEMENT

    # -- the buffer that is filled ----------------------------------------------------------------

    def _hold(self, batch: list[Any]) -> int:
        width = len(self._upsert.columns)
        for row in batch:
            if not isinstance(row, (tuple, list)) or len(row) != width:
                raise UnfitItem(no_row(row, self._upsert) or "")
        fit = [row for row in batch if not self._unfit(row)] if self._numbers or self._time else batch
        self._rows += [(*row, 1) for row in fit]
        if len(self._rows) > self._merge_at:
            self._rows = self._merged(self._rows)
            self._merge_at = max(ROWS_A_STATEMENT, 2 * len(self._rows))
        if len(fit) < len(batch):
            self._books.move(len(batch) - len(fit), Outcome.PENDING, Outcome.REFUSED)
        return len(fit)

    def _unfit(self, row: Any) -> bool:
        """Return whether a row is too old, or has NaN in a column that is added or compared."""
        if self._time is not None and self._expire_after is not None:
            if self._time(row) < self._clock.now() - self._expire_after:
                self._books.note(expired=1)
                return True
        for place in self._numbers:
            if row[place] != row[place]:
                shown = repr(row) if self._log_values else f"in column {self._upsert.columns[place]!r}"
                log.error("%s: a row with NaN is refused: %s", self._name, shown)
                return True
        return False

    def _merged(self, rows: list[Any]) -> list[Any]:
        try:
            return self._counting.merged(rows)
        except Exception:  # Python cannot merge these values; the database merges them, or refuses rows
            return rows

    def _entries(self) -> int:
        return len(self._rows)

    def _compact(self) -> None:
        self._rows = self._merged(self._rows)

    # -- the buffer that is written ---------------------------------------------------------------

    def _take_out(self) -> list[Any]:
        rows, self._rows, self._merge_at = self._rows, [], ROWS_A_STATEMENT
        return rows

    def _put_back(self, taken: list[Any]) -> None:
        self._rows = taken + self._rows

    def _to_send(self, taken: list[Any]) -> list[Any]:
        return self._merged(taken)

    def _may_wait(self) -> bool:
        return self._table_sink.unchecked

    def _stopped_by(self) -> Exception | None:
        if self._table_sink.unchecked:
            self._table_sink.check()  # the first item is produced: the table has to be there
        return super()._stopped_by()


class _Counted(Sink):
    """Writes rows into a table, without their last value: the number of items that a row stands for."""

    def __init__(self, table: TableSink, upsert: Upsert | None = None) -> None:
        self._table, self._upsert = table, upsert
        self.failure_of, self.described = table.failure_of, table.described  # type: ignore[method-assign]
        self.cancel, self.close, self.forget = table.cancel, table.close, table.forget  # type: ignore[method-assign]

    def send(self, items: list[Any]) -> list[tuple[int | None, object]]:
        return self.send_within(items, Attempt())

    def send_within(self, items: list[Any], attempt: Attempt) -> list[tuple[int | None, object]]:
        return self._table.send_within([row[:-1] for row in items], attempt, self._upsert)


def _items(rows: list[Any]) -> int:
    return sum(row[-1] for row in rows)
