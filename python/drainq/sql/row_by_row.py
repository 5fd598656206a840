"""Writes the rows that a database accepts, one by one in one transaction, and reports the refused ones.

A database refuses a whole batch because of one poison row. Halving the batch costs two transactions for each poison
row: 94 s for 5,000 poison rows of 10,000. Here such a batch costs a few times as much as a clean batch.

1. Rows are written in their order, so the last row of a key wins.
2. SQLite undoes a statement that fails and keeps the transaction. PostgreSQL does so in a block of PL/pgSQL: rows are
   copied as text into a temporary table, and written from there one by one, each in a subtransaction.
3. Only an error that :mod:`drainq.sql.driver_errors` classifies as ``DATA``, or a value that cannot be bound, is a
   refusal. Any other error ends the transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drainq.sql.database import Database, Row
from drainq.sql.dialect import Failure
from drainq.sql.driver_errors import SQLSTATES
from drainq.sql.postgres_text import text_of
from drainq.sql.quoting import literal, quote
from drainq.sql.upsert import Upsert

_STAGE = "drainq_rows_one_by_one"
_REFUSED = "drainq_rows_refused"


def write_each(database: Database, upsert: Upsert, rows: Sequence[Row]) -> list[tuple[int, object]]:
    """Write rows inside the caller's transaction.

    Args:
        rows: each with a value for every column.
    Returns:
        The index and the reason of each refused row, in order.
    """
    if database.dialect.keeps_transaction:
        return _write_row_by_row(database, upsert, rows)
    return _write_in_subtransactions(database, upsert, rows)


def _write_row_by_row(database: Database, upsert: Upsert, rows: Sequence[Row]) -> list[tuple[int, object]]:
    statement = upsert.statement(database.dialect)
    refused: list[tuple[int, object]] = []
    taken = 0

    def feed() -> Any:
        nonlocal taken
        for row in rows:
            taken += 1
            yield row

    left = feed()  # one iterator for all tries: it continues after the refused row
    while taken < len(rows):
        try:
            database.execute_many(statement, left)
        except (*_UNBINDABLE, database.errors) as error:
            if database.dialect.failure_of(error) not in (None, Failure.DATA):
                raise
            refused.append((taken - 1, error))
    return refused


_UNBINDABLE = (TypeError, ValueError, OverflowError, UnicodeError)


def _write_in_subtransactions(database: Database, upsert: Upsert, rows: Sequence[Row]) -> list[tuple[int, object]]:
    texts, refused = _as_texts(database, rows)
    database.execute("SET CONSTRAINTS ALL IMMEDIATE")
    columns = [f"c{number}" for number in range(len(upsert.columns))]
    texts_columns = ", ".join(f"{name} text" for name in columns)
    database.execute(f"CREATE TEMPORARY TABLE {_STAGE} (place integer, {texts_columns}) ON COMMIT DROP")
    database.execute(f"CREATE TEMPORARY TABLE {_REFUSED} (place integer, reason text) ON COMMIT DROP")
    with database.connection.cursor() as cursor, cursor.copy(f"COPY pg_temp.{_STAGE} FROM STDIN", ()) as copy:
        for row in texts:
            copy.write_row(row)
    database.connection.execute(_block(database, upsert, columns).replace("%", "%%"), ())
    found = database.execute(f"SELECT place, reason FROM pg_temp.{_REFUSED}")
    return sorted(refused + found, key=lambda each: each[0])


def _as_texts(database: Database, rows: Sequence[Row]) -> tuple[list[Any], list[Any]]:
    """Return the rows with their index, each value as PostgreSQL's text; and the rows that cannot be written."""
    write = text_of(database.connection)
    texts, refused = [], []
    for place, row in enumerate(rows):
        try:
            texts.append([place, *map(write, row)])
        except (*_UNBINDABLE, database.errors) as error:
            refused.append((place, error))
    return texts, refused


def _block(database: Database, upsert: Upsert, columns: list[str]) -> str:
    """Return the PL/pgSQL that writes the staged rows, each in a subtransaction."""
    table = upsert.table
    types = dict(
        database.execute(
            "SELECT attname, pg_catalog.format_type(atttypid, -1) FROM pg_attribute "
            "WHERE attrelid = pg_catalog.to_regclass(%s)",
            [quote(table)],
        )
    )
    casts = ", ".join(f"CAST(r.{name} AS {types[column]})" for name, column in zip(columns, upsert.columns))
    insert = upsert.statement(database.dialect, f"VALUES ({casts})").replace("%%", "%")
    data = [code for code, failure in SQLSTATES.items() if failure is Failure.DATA]
    classes = ", ".join(literal(code) for code in data if len(code) == 2)
    others = ", ".join(literal(code) for code in data if len(code) == 5)
    body = f"""
#variable_conflict use_column
DECLARE r record;
BEGIN
  FOR r IN SELECT * FROM pg_temp.{_STAGE} ORDER BY place LOOP
    BEGIN
      {insert};
    EXCEPTION WHEN OTHERS THEN
      IF pg_catalog.left(SQLSTATE, 2) IN ({classes}) OR SQLSTATE IN ({others}) THEN
        INSERT INTO pg_temp.{_REFUSED} VALUES (r.place, SQLSTATE || ': ' || SQLERRM);
      ELSE
        RAISE;
      END IF;
    END;
  END LOOP;
END"""
    return f"DO {literal(body)}"
