"""The stored row does not depend on the number of rows that come with it, or on a refused one among them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from uuid import UUID

import pytest

from drainq.sql import Database, Upsert
from drainq.workers.sql_sink import TableSink

UTC = dt.timezone.utc
POISON = (-1, None)
AS_TEXT = {"sqlite": "quote(v)", "postgresql": "CAST(v AS text)"}

PAIRS = [  # the type of a column and a value
    ("integer", 1.5), ("integer", 2.0), ("integer", -0.0), ("integer", True), ("integer", Decimal("1.5")),
    ("integer", "12"), ("integer", " 12 "), ("integer", ""), ("integer", float("inf")), ("smallint", False),
    ("bigint", 1e18), ("bigint", 2**63), ("boolean", 1), ("boolean", "1"), ("boolean", True),
    ("numeric", float("nan")), ("numeric", 0.1), ("numeric", 1e20), ("numeric", 2**70), ("numeric", Decimal("2.00")),
    ("real", 16777217), ("real", 0.1), ("double precision", 0.1 + 0.2), ("double precision", 1e300),
    ("text", 1.0), ("text", 7), ("text", True), ("text", dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
    ("text", b"ab\\c"), ("text", UUID(int=5)), ("text", dt.time(1, 2, 3)), ("text", "a\0b"), ("text", "a\ud800b"),
    ("text", "tab\t, line\n, \\N, \u00e9"), ("varchar(3)", "abc   "), ("varchar(3)", "abcd"), ("char(5)", "ab"),
    ("timestamp with time zone", dt.datetime(2026, 1, 2, 3, 4, 5)), ("timestamp with time zone", dt.date(2026, 1, 2)),
    ("timestamp with time zone", "2026-01-02 03:04:05+00"), ("interval", dt.timedelta(days=1, seconds=5)),
    ("bytea", "\\x4142"), ("bytea", b"\0\xff"), ("uuid", UUID(int=5)), ("json", '{"a": 1}'), ("json", {"a": 1}),
    ("integer[]", [1, 2]), ("text[]", ["a", None]),
]  # fmt: skip


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_what_is_stored_does_not_depend_on_the_company(kind, part, tmp_path, request):
    url = f"sqlite:///{tmp_path}/sizes.db" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    wrong = []
    with Database(url) as database:
        for number, (column, value) in list(enumerate(PAIRS))[part::4]:
            database.execute("DROP TABLE IF EXISTS sizes")
            database.execute(f"CREATE TABLE sizes (id integer PRIMARY KEY CHECK (id >= 0), v {column})")
            sizes = (1, 100, 300, 5_000) if number % 8 in (2, 5) else (1, 100, 300)
            for key in ((), ("id",)):
                sink = TableSink(url, Upsert("sizes", ["id", "v"], key=key))
                found = {(size, poison): write(database, sink, value, size, poison)
                         for size in sizes for poison in (False, True)}  # fmt: skip
                sink.close()
                if len(set(found.values())) > 1:
                    wrong.append((column, value, key, found))
        database.execute("DROP TABLE sizes")
    assert wrong == []


def write(database, sink, value, size, poison):
    """Return what became of each row: the same for all, or an answer that is equal to no other."""
    rows = [(n, value) for n in range(size)]
    if poison:
        rows.insert(size // 2, POISON)
    refused = [place for place, _ in sink.send(rows)] if size > 1 or poison else alone(sink, rows)
    stored = database.execute(f"SELECT {AS_TEXT[database.dialect.name]}, count(*) FROM sizes GROUP BY 1")
    database.execute("DELETE FROM sizes")
    if poison:
        refused.remove(size // 2)
    if not stored and len(refused) == size:
        return "refused"
    if not refused and len(stored) == 1 and stored[0][1] == size:
        return stored[0][0]
    return size, poison, str(stored), len(refused)


def alone(sink, rows):
    """Return the places of refused rows. For a row that is refused alone, ``send`` raises."""
    try:
        return [place for place, _ in sink.send(rows)]
    except Exception as error:
        assert sink.failure_of(error).value == "data"
        return [0]
