"""Writes a DataFrame's rows into a table of a database exactly once, also rows without a key.

1. Each task attempt writes its rows, with its number, into a staging table of this call. Spark returns the numbers of
   the attempts that it kept. One transaction moves their rows into the target and drops the staging table.
2. So the rows of an attempt that failed, was killed, or lost against its speculative copy are never moved.
3. An attempt writes no batch twice: after an error it fails, and the next attempt has another number.
4. If the commit is not answered, the database shows the outcome: after a commit the staging table is gone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from drainq.arguments import whole
from drainq.errors import DrainqError
from drainq.spark.rows import Rows
from drainq.spark.sink import PartitionReport, SinkReport, reports_of
from drainq.spark.sink_settings import OnError, Settings
from drainq.sql import Database, DatabaseError, DatabaseUrl, Upsert
from drainq.sql.driver_errors import key_is_not_unique, table_is_missing
from drainq.sql.error_text import error_text
from drainq.sql.upsert import Merge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ATTEMPT = "drainq_attempt"
_ANY = (Merge.LAST, Merge.FIRST)  # of several rows with one key, any is taken


def sink_table(
    df: DataFrame,
    database: str,
    table: str,
    *,
    columns: Sequence[str] | None = None,
    key: Sequence[str] = (),
    merge: Mapping[str, Merge | str] | None = None,
    threads: int = 1,
    max_batch_rows: int = 10_000,
) -> SinkReport:
    """Write all rows of a DataFrame into a table, exactly once. An action.

    All rows are in the table when the call returns, and none of them if it raises. Tasks that run again and speculative
    copies change nothing. Another call writes its rows again.

    Args:
        df: the rows.
        database: the URL, such as ``"postgresql://me@host/db"``. Every executor connects to it.
        table: the name of an existing table. The call makes a table of its own, whose name begins with
            ``drainq_staged_``, so it needs the right to create tables.
        columns: the columns to write, which have the same names in the table; None writes all.
        key: columns with a unique index: a row replaces the stored row of the same key. Of several rows of ``df`` with
            one key, any is taken. Empty: every row is inserted.
        merge: as for :class:`drainq.sql.Upsert`: column -> ``"sum"``, ``"max"`` or ``"min"``, which merge the rows of a
            key with the stored row and with each other.
        threads: connections of a task.
        max_batch_rows: the most rows in a batch.
    Returns:
        The account of the attempts that Spark kept.
    Raises:
        TypeError, ValueError: an argument is of the wrong kind or out of range.
        DatabaseError: the table, a column, a right or a unique index on ``key`` is missing, or the database refused the
            rows.
        pyspark.errors.PySparkException: a task failed.

    Example:
        >>> sink_table(df, "postgresql://me@host/shop", "sales").rows  # doctest: +SKIP
        1000000
        >>> sink_table(df, "sqlite:///hits.db", "hits", key=["page"], merge={"n": "sum"}).rows  # doctest: +SKIP
        5
    """
    names = list(df.columns if columns is None else columns)
    upsert = Upsert(table, names, key=key, merge=merge)
    staging = StagingTable(DatabaseUrl.parse(database), upsert, f"drainq_staged_{uuid4().hex}")
    settings = Settings(
        make_writer=lambda info: _Writer(staging, info.task_attempt_id),
        threads=whole("threads", threads, least=1),
        rows=Rows.TUPLES,
        max_in_flight=3 * threads,
        max_batch_rows=whole("max_batch_rows", max_batch_rows, least=1),
        linger=1.0,
        on_error=OnError.FAIL,
        retries=0,
    )
    try:
        staging.create()
        kept = dict(reports_of(df.select(*names), settings))
        staging.move(kept)
    except BaseException:
        with contextlib.suppress(Exception), Database(staging.url) as opened:  # the first error is the one to tell
            opened.execute(f"DROP TABLE IF EXISTS {staging.quoted}")
        raise
    return SinkReport.of(kept.values())


class StagingTable:
    """The staging table of one call.

    Args:
        url: the database's.
        upsert: writes into the target.
        name: the table's name.
    """

    def __init__(self, url: DatabaseUrl, upsert: Upsert, name: str) -> None:
        self.url, self.upsert, self.name = url, upsert, name
        self.quoted = url.dialect.quote(name)

    def create(self) -> None:
        """Make the table with the target's column types. Run the moving statement without rows, to check it."""
        quote, target = self.url.dialect.quote, self.upsert.table
        columns = [*map(quote, self.upsert.columns), f"CAST(0 AS BIGINT) AS {quote(ATTEMPT)}"]
        with self._opened() as database:
            database.execute(f"CREATE TABLE {self.quoted} AS SELECT {', '.join(columns)} FROM {quote(target)} LIMIT 0")
            database.execute(self._statement("NULL"))

    def move(self, kept: Mapping[int, PartitionReport]) -> None:
        """Move the rows of the attempts that Spark kept, and drop the table.

        Raises:
            DrainqError: the table has another number of rows than the attempts wrote; no row was moved.
            DatabaseError: the database refused; no row was moved.
        """
        attempts, written = ", ".join(map(str, kept)) or "NULL", sum(report.rows for report in kept.values())
        with self._opened() as database:
            try:
                with database.transaction():
                    [(found,)] = database.execute(f"SELECT COUNT(*) {self._rows(attempts)}")
                    if found != written:
                        raise DrainqError(f"{self.name!r} has {found} rows, and the tasks wrote {written}")
                    database.execute(self._statement(attempts))
                    database.execute(f"DROP TABLE {self.quoted}")
            except database.errors:
                if not self._is_gone():
                    raise

    def _rows(self, attempts: str) -> str:
        return f"FROM {self.quoted} WHERE {self.url.dialect.quote(ATTEMPT)} IN ({attempts})"

    def _statement(self, attempts: str) -> str:
        """Return the moving statement. PostgreSQL refuses a key twice, so rows are merged by key, but not NULL keys."""
        dialect, upsert = self.url.dialect, self.upsert
        quote, chosen, groups = dialect.quote, [], ""
        is_grouped = bool(upsert.key) and not dialect.merges_row_by_row
        for name in upsert.columns:
            rule = upsert.merge.get(name, Merge.LAST)
            merged = f"(ARRAY_AGG({quote(name)}))[1]" if rule in _ANY else f"{rule.value}({quote(name)})"
            chosen.append(merged if is_grouped and name not in upsert.key else quote(name))
        if is_grouped:
            key = [quote(name) for name in upsert.key]
            groups = f" GROUP BY {', '.join(key)}, CASE WHEN {' IS NULL OR '.join(key)} IS NULL THEN ctid END"
        return upsert.statement(dialect, f"SELECT {', '.join(chosen)} {self._rows(attempts)}{groups}")

    def _is_gone(self) -> bool:
        """Return whether the table was dropped. Waits for a transaction that is still ending."""
        try:
            with Database(self.url) as database:
                database.execute(f"SELECT 1 FROM {self.quoted} LIMIT 1")
        except self.url.dialect.errors as error:
            return table_is_missing(error)
        return False

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Database]:
        try:
            with Database(self.url) as database:
                yield database
        except self.url.dialect.errors as error:
            why = error_text(error)
            if key_is_not_unique(error):
                why = f"no unique index has exactly the columns {[*self.upsert.key]}; make one: {self.upsert.index()}"
            raise DatabaseError(f"cannot write to {self.upsert.table!r} in {self.url}: {why}") from error


class _Writer:
    """Writes batches of one attempt into the staging table."""

    def __init__(self, table: StagingTable, attempt: int) -> None:
        self._attempt = attempt
        self._upsert = Upsert(table.name, [*table.upsert.columns, ATTEMPT])
        self._database = Database(table.url)

    def write(self, batch: list[tuple[Any, ...]]) -> None:
        with self._database.transaction():
            self._upsert.write(self._database, [(*row, self._attempt) for row in batch])

    def close(self) -> None:
        self._database.close()
