"""StreamReader: reads a queue as a stream for Spark. An offset is the number of a claim.

1. ``latestOffset(start)`` means that all claims up to ``start`` are committed, so the method deletes them, even without
   new messages. PySpark before 4.2 passes no ``start``. There ``commit`` deletes them, one batch later.
2. Existing claims after ``start`` come first: they were made before a crash, and no batch has them. Without ``start``
   they come with new claims: PySpark before 4.2 asks for the offset once under ``availableNow``.
3. An empty queue is queried at most once in ``pollInterval`` seconds, and the query writes nothing.
4. An object of this class is pickled and sent to tasks, so connections are opened at their first use.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from drainq.datasource.claims import Claims
from drainq.datasource.columns import record_batches
from drainq.datasource.options import MAX_ROWS, Options
from drainq.datasource.payload_form import PayloadForm
from drainq.datasource.tables import Tables
from drainq.datasource.transactions import Transactions
from drainq.delayed.config import TimeConfig
from drainq.delayed.queue import DelayedQueue, partition_kind
from drainq.errors import DrainqError
from drainq.sql.url import DatabaseUrl

try:
    from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # PySpark before 4.2

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stands in for PySpark's class."""

    ReadMaxRows = None  # type: ignore[assignment,misc]

_ROWS_OF_A_PARTITION = 1000  # fewer are not worth another task
_LEASE = 60.0  # seconds from a poll to the claim, at most


class ClaimedPart(InputPartition):
    """One part of the claims between two offsets."""

    def __init__(self, after: int, upto: int, part: int, parts: int, rows: int) -> None:
        super().__init__((after, upto, part, parts, rows))


class _Until:
    """A clock that stops at a given time."""

    def __init__(self) -> None:
        self.end = float("inf")

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return min(time.time(), self.end)


class _Opened:
    """The connections of a reader's process."""

    def __init__(self, options: Options, form: PayloadForm) -> None:
        self.clock = _Until()
        self.transactions = Transactions(options.url)
        self.transactions.run(Tables(options.table, DatabaseUrl.parse(options.url).dialect).create)
        self.claims = _claims(options, form, self.transactions)
        self.queue = DelayedQueue.open(
            options.url,
            options.queue,
            codec=form.codec,
            table=options.table,
            clock=self.clock,
            time=TimeConfig(acquire_timeout=_LEASE),
        )

    def close(self) -> None:
        self.queue.close()
        self.transactions.close()


def _claims(options: Options, form: PayloadForm, transactions: Transactions) -> Claims:
    assert options.consumer is not None
    kind = partition_kind(options.queue, form.codec.type_name)
    return Claims(transactions, Tables(options.table, DatabaseUrl.parse(options.url).dialect), kind, options.consumer)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a queue's due messages, each in just one batch.

    Args:
        options: the data source's.
        form: the payloads' form.
        names: the columns' names.
    """

    def __init__(self, options: Options, form: PayloadForm, names: Sequence[str]) -> None:
        self._options, self._form, self._names = options, form, names
        self._opened: _Opened | None = None
        self._reported: int | None = None  # the last offset, if Spark hands over no start
        self._look_again = 0.0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def initialOffset(self) -> dict[str, int]:
        """Return the offset before every claim."""
        return {"number": 0}

    def getDefaultReadLimit(self) -> Any:
        """Return the option ``maxRows``."""
        return ReadMaxRows(self._options.max_rows or MAX_ROWS)

    def prepareForTriggerAvailableNow(self) -> None:
        """Ignore messages that become due from now on."""
        self._open().clock.end = time.time()

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:
        """Acknowledge the committed messages, and claim the due ones.

        Args:
            start: the end of the last committed batch; None: not known.
            limit: the most messages to claim.
        Raises:
            AnotherReader: another query reads with the same consumer.
        """
        claims = self._open().claims
        if limit is None:
            most: int | None = self._options.max_rows or MAX_ROWS
        else:
            most = getattr(limit, "max_rows", None)
        if start is None:
            return {"number": self._without_start(claims, most)}
        after = int(start["number"])
        if time.monotonic() < self._look_again:
            return {"number": after}
        return {"number": claims.done(after) or self._claim(claims, after, most) or after}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Split the claims between two offsets into parts, as many as the number of messages justifies."""
        after, upto = int(start["number"]), int(end["number"])
        claims = self._open().claims
        total = sum(count for _, count in claims.counts(after, upto, 1))
        parts = max(1, min(self._options.partitions, -(-total // _ROWS_OF_A_PARTITION)))
        return [ClaimedPart(after, upto, part, parts, rows) for part, rows in claims.counts(after, upto, parts)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the messages of a part as record batches.

        Raises:
            DrainqError: messages of the batch are missing.
        """
        after, upto, part, parts, rows = partition.value
        with Transactions(self._options.url) as transactions:
            found = list(_claims(self._options, self._form, transactions).messages(after, upto, part, parts))
        if len(found) != rows:
            raise DrainqError(
                f"claims {after + 1} to {upto} of consumer {self._options.consumer!r} had {rows} messages in part "
                f"{part}, and have {len(found)}: another query reads with this consumer, or the tables were changed"
            )
        yield from record_batches(found, self._names, self._form)

    def commit(self, end: dict[str, int]) -> None:
        """Delete the claims up to this offset, because their batches are committed."""
        self._open().claims.done(int(end["number"]))

    def stop(self) -> None:
        """Close the connections."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def _without_start(self, claims: Claims, most: int | None) -> int:
        """Claim new messages after the existing claims. The first answer of a process has both, because Spark may
        ask only once."""
        if self._reported is None:
            self._reported = claims.number()
        if time.monotonic() >= self._look_again:
            self._reported = self._claim(claims, self._reported, most) or self._reported
        return self._reported

    def _claim(self, claims: Claims, after: int, most: int | None) -> int | None:
        number = claims.claim(self._open().queue, after, most)
        if number is None:
            self._look_again = time.monotonic() + self._options.poll_interval
        return number

    def _open(self) -> _Opened:
        if self._opened is None:
            self._opened = _Opened(self._options, self._form)
        return self._opened
