"""L2: merge rows in memory, then into a table by one upsert statement.

1. Two buffers: rows go on arriving in one while the other is written, on a thread of its own. Draining does not wait
   for the database, until ``max_rows`` merged rows are held; then it does, the queue fills, and producers wait.
2. A flush is one transaction; rows that the database refuses stand alone, all others are written.
3. While the database takes nothing, a flush waits and tries again, up to ``retry_for``. A missing table, right or index
   stops the persister: it keeps what it holds, and producers get the error.

Source: ``MetricsPersistentWorker`` and ``PersistenceTimer`` in SkyWalking: every few seconds it reads the stored rows,
merges, and writes them back. Here the database merges, so several writers can share a table.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drainq._native import BatchQueue
from drainq.clock import Clock
from drainq.delivery.books import Outcome
from drainq.delivery.dead_letters import DeadLetters, DelayedQueueLike, check_delayed
from drainq.delivery.delivery import RETRY_FOR, Delivery
from drainq.delivery.resend import Resender
from drainq.delivery.sink import DeliveryError, Sink
from drainq.delivery.worker import check_callable, check_seconds
from drainq.fork import leave_to_parent
from drainq.sql import DatabaseUrl, Merge, Upsert
from drainq.timer import SHARED
from drainq.workers.holder import Holder, log
from drainq.workers.sql_sink import TableSink

ROWS_A_STATEMENT = 20_000  # rows of one upsert; a flush is one transaction however many there are
MAX_ROWS = 200_000  # merged rows that are held before draining waits
PAUSE = 0.5  # seconds between two tries of a persister that is stopped and full
_ITEMS = ""  # a column of its own, behind the table's: how many items a row stands for


class MetricsPersister(Holder):
    """Merge rows by key and write them at each flush, in one transaction.

    If a connection breaks during COMMIT, the commit may or may not have gone through; the rows are then written again,
    and sums may count them twice.

    Args:
        url: ``sqlite:///relative.db``, ``sqlite:////absolute.db`` or ``postgresql://user@host/db``.
        table: the table; it exists, with a primary key or unique index on ``key``.
        columns: the names of an item's values; an item is a tuple in this order.
        key: the columns that identify a row.
        merge: column -> ``"sum"``, ``"max"``, ``"min"`` or ``"last"``; a column that is not named takes the last value.
        flush_interval: seconds between flushes; None: only ``flush`` and ``close``.
        max_rows: merged rows that are held at most before draining waits for the database.
        retry_for: seconds that an outage of the database is waited out; then rows go to ``delayed``, or are lost.
        delayed: a :class:`drainq.delayed.DelayedQueue` of its own for what is given up on; None: poison rows are
            refused, and what finds no database for ``retry_for`` is lost.
        time: maps a row to its time, in seconds since the epoch; needed with ``expire_after``.
        expire_after: rows that are older than these seconds are refused, and counted as ``expired``.
        queue, weight, clock: as for every :class:`~drainq.delivery.worker.Worker`.
    Raises:
        ValueError: the URL, a column or a rule is not known.
        DatabaseError: the database cannot be opened, or has no such columns or unique index on the key. A table that
            is not there is an error of the first ``produce``.

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
        max_rows: int = MAX_ROWS,
        retry_for: float = RETRY_FOR,
        delayed: DelayedQueueLike | None = None,
        time: Callable[[Any], float] | None = None,
        expire_after: float | None = None,
        queue: BatchQueue | None = None,
        weight: float = 1.0,
        clock: Clock | None = None,
    ) -> None:
        if not key:
            raise ValueError(f"key must name the columns that identify a row, got {list(key)!r}")
        if isinstance(max_rows, bool) or not isinstance(max_rows, int):
            raise TypeError(f"max_rows must be a number of rows, got {max_rows!r}")
        if max_rows < 1:
            raise ValueError(f"max_rows must be >= 1, got {max_rows}")
        check_seconds("retry_for", retry_for)
        check_callable(time=time)
        check_seconds("expire_after", expire_after, none=True)
        if (time is None) != (expire_after is None):
            raise ValueError(f"time and expire_after belong together, got time={time!r}, expire_after={expire_after!r}")
        check_delayed(delayed)
        self._upsert = Upsert(table, columns, key=key, merge=merge)
        self._counting = Upsert(table, [*columns, _ITEMS], key=key, merge={**self._upsert.merge, _ITEMS: Merge.SUM})
        self._numbers = [
            place
            for place, column in enumerate(columns)
            if self._upsert.merge.get(column, Merge.LAST) is not Merge.LAST
        ]
        self._max_rows, self._time, self._expire_after = max_rows, time, expire_after
        self._rows: list[Any] = []  # each with the number of items that it stands for
        self._merge_at = ROWS_A_STATEMENT
        self._flushing = threading.Event()  # a flush is scheduled on a thread of its own
        self._table_sink = TableSink(url, self._upsert, may_be_missing=True)
        super().__init__(queue=queue, flush_interval=flush_interval, weight=weight, clock=clock)
        self._resender: Resender | None = None
        dead_letters = None
        sink = _Counted(self._table_sink)
        if delayed is not None:
            places = [self._upsert.columns.index(column) for column in self._upsert.key]
            older = {column: self._upsert.merge.get(column, Merge.LAST) for column in columns if column not in key}
            replaces = Merge.LAST in older.values()
            upsert = Upsert(
                table,
                columns,
                key=key,
                merge={column: Merge.FIRST if rule is Merge.LAST else rule for column, rule in older.items()},
            )
            dead_letters = DeadLetters(
                delayed,
                label=f"metrics-persister/{table}",
                books=self._books,
                clock=self._clock,
                key_of=(lambda row: tuple([row[place] for place in places])) if replaces else None,
                size=_items,
                older_sink=_Counted(self._table_sink, upsert),
            )
            self._resender = Resender(self, dead_letters, sink)
        self._dead_letters = dead_letters
        self._delivery = Delivery(
            sink,
            dead_letters=dead_letters,
            books=self._books,
            name=f"metrics-persister/{table}",
            retry_for=retry_for,
            size=_items,
            keep_when_stopped=True,
        )

    def _begin(self) -> None:
        super()._begin()
        self._flushing = threading.Event()

    def _forget(self) -> None:
        super()._forget()
        leave_to_parent(self._rows)
        self._rows, self._merge_at = [], ROWS_A_STATEMENT
        self._delivery.sink.forget()
        self._delivery.renew()
        if self._dead_letters is not None and self._resender is not None:
            self._dead_letters.renew()
            self._resender.renew()

    # -- the buffer that is filled ----------------------------------------------------------------

    def _hold(self, batch: list[Any]) -> int:
        width = len(self._upsert.columns)
        for row in batch:
            if not isinstance(row, (tuple, list)) or len(row) != width:
                raise ValueError(
                    f"a row needs {width} values for the columns {list(self._upsert.columns)!r}, got {row!r}"
                )
        fit = [row for row in batch if not self._unfit(row)] if self._numbers or self._time else batch
        self._rows += [(*row, 1) for row in fit]
        if len(self._rows) > self._merge_at:
            self._rows = self._merged(self._rows)
            self._merge_at = max(ROWS_A_STATEMENT, 2 * len(self._rows))
        if len(fit) < len(batch):
            self._books.move(len(batch) - len(fit), Outcome.PENDING, Outcome.REFUSED)
        return len(fit)

    def _unfit(self, row: Any) -> bool:
        """Whether a row is too old, or has NaN where values are added or compared."""
        if self._time is not None and self._expire_after is not None:
            if self._time(row) < self._clock.now() - self._expire_after:
                self._books.note(expired=1)
                return True
        for place in self._numbers:
            if row[place] != row[place]:
                log.error("%r: a row with NaN is refused: %r", self._upsert.table, row)
                return True
        return False

    def _merged(self, rows: list[Any]) -> list[Any]:
        try:
            return self._counting.merged(rows)
        except Exception:  # values that Python cannot add: the database may, or it says which it refuses
            return rows

    def _take(self, batch: list[Any]) -> None:
        super()._take(batch)
        while len(self._rows) > self._max_rows and not self._closed:
            with self._state():
                self._rows = self._merged(self._rows)
            if len(self._rows) > self._max_rows and not self._flush_once():
                with self._holding:
                    self._holding.wait(PAUSE)  # stopped: producers get the error, and what is held is kept

    # -- the buffer that is written ---------------------------------------------------------------

    def _flush_if_due(self) -> None:
        if self._interval is None or not self._held or self._clock.now() - self._flushed_at < self._interval:
            return
        if not self._flushing.is_set():
            self._flushing.set()
            SHARED.after(0, self._flush_aside)

    def _flush_aside(self) -> None:
        try:
            self._flush_once(wait=False)
        finally:
            self._flushing.clear()

    def on_idle(self) -> None:
        """Flush if the interval is over, in this thread."""
        super()._flush_if_due()

    def _take_out(self) -> list[Any]:
        rows, self._rows, self._merge_at = self._rows, [], ROWS_A_STATEMENT
        return rows

    def _hand_on(self, taken: list[Any]) -> None:
        rows = self._merged(taken)
        try:
            left = self._delivery.deliver(rows)
        except DeliveryError as error:
            log.error("%s", error)
            raise _Accounted([]) from error
        if left:
            raise _Accounted(left) from self._delivery.stopped

    def _handed_on(self, count: int, taken: Any, error: BaseException | None) -> None:
        """The delivery has accounted for all but what it left."""
        if isinstance(error, _Accounted):
            kept = error.left
        elif error is not None:
            kept = taken
        else:
            return
        if kept and self._cut_off is None:
            self._books.note(retried=_items(kept))
            self._held += _items(kept)
            self._put_back(kept)

    def _put_back(self, taken: list[Any]) -> None:
        self._rows = taken + self._rows

    def _stopped_by(self) -> Exception | None:
        if self._table_sink.unchecked and self._queue is None:
            self._table_sink.check()  # the first item is produced: the table has to be there
        return self._delivery.stopped

    def _flush_held(self, deadline: float | None) -> bool:
        done = super()._flush_held(deadline)
        return (self._resender is None or self._closed or self._resender.flush(deadline)) and done

    def _give_up(self) -> None:
        if self._resender is not None:
            self._resender.give_up()
        self._delivery.give_up()
        with self._holding:
            self._holding.notify_all()

    def _end(self, deadline: float | None) -> bool:
        super()._flush_held(deadline)
        if self._resender is not None:
            self._resender.stop(deadline)
        self._delivery.keep(self._delivery.cut(), deadline)
        with self._holding:
            busy = self._handing_on is not None
            held, self._held = self._books.count(Outcome.PENDING), 0
            self._cut_off = 0
        self._books.move(held, Outcome.PENDING, Outcome.LOST)
        if held:
            log.error("%r: %d items are given up at close()", self._upsert.table, held)
        return not busy

    def _release(self) -> None:
        self._delivery.sink.close()


class _Accounted(Exception):
    """A flush failed; the items that are not in ``left`` are accounted for."""

    def __init__(self, left: list[Any]) -> None:
        super().__init__(f"{_items(left)} items are kept")
        self.left = left


class _Counted(Sink):
    """Rows with the number of items that they stand for, into a table."""

    def __init__(self, table: TableSink, upsert: Upsert | None = None) -> None:
        self._table, self._upsert = table, upsert
        self.failure_of = table.failure_of  # type: ignore[method-assign]
        self.cancel, self.close, self.forget = table.cancel, table.close, table.forget  # type: ignore[method-assign]

    def send(self, items: list[Any]) -> list[tuple[int, object]]:
        return self._table.send([row[:-1] for row in items], self._upsert)


def _items(rows: list[Any]) -> int:
    return sum(row[-1] for row in rows)
