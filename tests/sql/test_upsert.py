"""One statement that inserts or merges, in both databases."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import uuid
from datetime import date, datetime, timezone
from decimal import Decimal

import pytest

from drainq.sql import Database, DatabaseError, DatabaseUrl, Dialect, Upsert
from drainq.sql.driver_errors import key_is_not_unique
from drainq.sql.postgres_text import copied
from drainq.sql.row_by_row import write_each
from drainq.sql.upsert import SMALL

COLUMNS = ["k", "part", "n", "high", "low", "what"]
MERGE = {"n": "sum", "high": "max", "low": "min", "what": "last"}


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    url = f"sqlite:///{tmp_path}/x.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with Database(url) as opened:
        yield opened


@pytest.fixture
def table(database):
    """Yield a table with a name that must be quoted; dropped at the end."""
    name = f'up"sert % {uuid.uuid4().hex}'
    quoted = database.dialect.quote(name)
    database.execute(
        f"CREATE TABLE {quoted} "
        "(k TEXT, part INTEGER, n INTEGER, high INTEGER, low INTEGER, what TEXT, PRIMARY KEY (k, part))"
    )
    yield name
    database.execute(f"DROP TABLE {quoted}")


def model(rows):
    def merged(function, values):
        known = [value for value in values if value is not None]
        return function(known) if known else None

    groups = {}
    for row in rows:
        groups.setdefault(row[:2], []).append(row[2:])
    return sorted(
        (
            *key,
            merged(sum, [v[0] for v in vs]),
            merged(max, [v[1] for v in vs]),
            merged(min, [v[2] for v in vs]),
            vs[-1][3],
        )
        for key, vs in groups.items()
    )


def test_rows_of_many_columns_take_several_statements(database):
    columns = [f"c{place}" for place in range(400)]
    database.execute(f"CREATE TEMPORARY TABLE wide ({', '.join(f'{column} INTEGER' for column in columns)})")
    assert Upsert("wide", columns).write(database, [range(400)] * SMALL) == SMALL
    assert database.execute("SELECT count(*), max(c399) FROM wide") == [(SMALL, 399)]


def kept_by_sqlite(path, write):
    """Write into a new table of k and n. Return its rows in order, or the error's type; and the number of inserts."""
    told = []
    with Database(f"sqlite:///{path}") as database:
        database.execute("DROP TABLE IF EXISTS t")
        database.execute("CREATE TABLE t (k TEXT PRIMARY KEY, n INTEGER)")
        database.connection.set_trace_callback(told.append)
        try:
            with database.transaction():
                write(database)
        except (TypeError, ValueError, LookupError, database.errors) as error:
            return type(error), 0
        return database.execute("SELECT rowid, k, n FROM t ORDER BY 1"), sum("INSERT" in each for each in told)


@pytest.mark.parametrize("rule", ["none", "first", "last", "sum"])
def test_sqlite_takes_the_rows_of_one_statement_in_their_order_as_it_takes_them_alone(rule, tmp_path):
    key, merge = ([], {}) if rule == "none" else (["k"], {} if rule == "last" else {"n": rule})
    upsert = Upsert("t", ["k", "n"], key=key, merge=merge)

    def together_and_alone(rows):
        writes = (
            lambda database: upsert.write(database, rows),
            lambda database: database.execute_many(upsert.statement(database.dialect), rows),
        )
        return [kept_by_sqlite(tmp_path / "x.db", write) for write in writes]

    (stored, few), (one_by_one, many) = together_and_alone([(str(n), n) for n in range(600)])
    assert stored == one_by_one == [(n + 1, str(n), n) for n in range(600)]
    assert (few, many) == (600 // 16 + 600 % 16, 600)
    if key:  # the column's type makes these equal, not their own
        (stored, _), (one_by_one, _) = together_and_alone(
            [row for n in range(300) for row in ((n, n), [str(n), 1000 + n])]
        )
        assert stored == one_by_one and len(stored) == 300
    if not merge:
        for others in ([("a",), ("b", 1, 2)], [("a", 1, 2), ("b",)], ["ab", "cd"], [{"k": "a", "n": 1}], [7]):
            rows = [(str(n), n) for n in range(32 - len(others))]
            together, alone = together_and_alone([*rows, *others])
            assert together[0] == alone[0], others


class Server:
    """A connection to PostgreSQL, which notes the statements, and of values only how many there are."""

    def __init__(self):
        self.told, self.dialect, self.connection = [], Dialect.POSTGRESQL, self

    def execute(self, statement, values=()):
        self.told.append((statement.replace("(%s), ", ""), len(values)) if values else statement)

    def cursor(self):
        return contextlib.nullcontext(self)

    def copy(self, statement, values):
        self.told.append(statement)
        return contextlib.nullcontext(self)

    def write(self, piece):
        self.told.append(piece.count("\n"))


def test_postgresql_gets_a_small_batch_as_values_and_a_large_one_by_copy():
    def told(upsert, rows):
        server = Server()
        assert upsert.write(server, rows) == len(rows)
        return server.told

    rows = [(n,) for n in range(1001)]
    insert, end = 'INSERT INTO "t" ("a") VALUES (%s)', ' ON CONFLICT ("a") DO NOTHING'
    assert told(Upsert("t", ["a"]), rows[:SMALL]) == [(insert, SMALL)]
    assert told(Upsert("t", ["a"]), rows[: SMALL + 1]) == ['COPY "t" ("a") FROM STDIN', SMALL + 1]
    assert told(Upsert("t", ["a"]), rows) == ['COPY "t" ("a") FROM STDIN', 500, 500, 1]
    assert told(Upsert("t", ["a"], key=["a"]), rows[:SMALL]) == [(insert + end, SMALL)]
    create, copy, *counts, merge, truncate = told(Upsert("t", ["a"], key=["a"]), rows[: SMALL + 1])
    staged = truncate.removeprefix("TRUNCATE ")
    create_staged = f"CREATE TEMPORARY TABLE IF NOT EXISTS {staged} ON COMMIT DROP AS"
    assert (create, copy, counts) == (
        f'{create_staged} SELECT "a" FROM "t" LIMIT 0', f'COPY {staged} ("a") FROM STDIN', [SMALL + 1]
    )  # fmt: skip
    assert merge == f'INSERT INTO "t" ("a") SELECT "a" FROM {staged}{end}'


def test_values_are_copied_as_these_texts():
    pytest.importorskip("psycopg")
    same = uuid.UUID(int=7)
    rows = [
        (1, 1.0, 1e16, True, "a\tb\\c\nd\re", None, 2.0, date(2025, 1, 2)),
        (2, 2.5, -2.0, False, "ä", "", 2.0**63, same),
        (3, -0.0, 3e-7, True, "", "x", float("nan"), Decimal("1.50")),
    ]
    assert list(copied(None, rows)) == [
        "1\t1\t10000000000000000\ttrue\ta\\tb\\\\c\\nd\\re\t\\N\t2\t2025-01-02\n"
        f"2\t2.5\t-2\tfalse\tä\t\t9.223372036854776e+18\t{same}\n"
        "3\t-0\t3e-07\ttrue\t\tx\tnan\t1.50\n"
    ]


def test_the_index_that_is_shown_is_the_one_that_the_upsert_needs(database, table):
    upsert = Upsert(table, ["what", "n"], key=["what", "n"])
    with pytest.raises(database.errors) as refused:
        upsert.check(database)
    assert key_is_not_unique(refused.value)
    database.connection.execute(upsert.index())
    upsert.check(database)
    assert database.execute(f"SELECT count(*) FROM {database.dialect.quote(table)}") == [(0,)]
    assert Upsert('a"b', ["c", "d", "e"], key=["c", "d"]).index() == (
        'CREATE UNIQUE INDEX "a""b_c_d_key" ON "a""b" ("c", "d")'
    )
    assert repr(database) == f"Database('{database.url}')"


def test_a_value_that_is_too_long_for_its_column_is_refused_and_not_cut(postgres_url):
    with Database(postgres_url) as database:
        database.execute("CREATE TEMPORARY TABLE short (gone INTEGER, a VARCHAR(3), b NUMERIC(3, 1))")
        database.execute("ALTER TABLE short DROP COLUMN gone")
        with database.transaction():
            refused = write_each(database, Upsert("short", ["a", "b"]), [("abc", 1.25), ("abcd", 1), ("a", 123)])
        assert [place for place, _ in refused] == [1, 2]
        assert database.execute("SELECT a, b FROM short") == [("abc", Decimal("1.3"))]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [1, 30, 1_000])
def test_batches_agree_with_a_plain_model(database, table, seed, size):
    rng = random.Random(seed)
    upsert = Upsert(table, COLUMNS, key=["k", "part"], merge=MERGE)
    rows = [
        (
            rng.choice("aä'\"%\\"),
            rng.randrange(60),
            *(rng.choice([None, rng.randrange(-9, 9)]) for _ in range(3)),
            rng.choice(["x", "\t\n\\", None]),
        )
        for _ in range(3 * size)
    ]
    starts = range(0, len(rows), size)
    for some in (starts[:1], starts[1:]):  # a transaction may hold several batches
        with database.transaction():
            for start in some:
                upsert.write(database, rows[start : start + size])
    assert sorted(database.execute(f"SELECT * FROM {database.dialect.quote(table)}"), key=repr) == sorted(
        model(rows), key=repr
    )


def test_big_batches_of_one_table_may_have_other_columns_in_one_transaction(database, table):
    size = SMALL + 1
    with database.transaction():
        for column in ("n", "what"):
            upsert = Upsert(table, ["k", "part", column], key=["k", "part"])
            assert upsert.write(database, [("a", number, number) for number in range(size)]) == size
    found = database.execute(f"SELECT part, n, what FROM {database.dialect.quote(table)} ORDER BY part")
    assert found == [(number, number, str(number)) for number in range(size)]


def test_a_row_that_would_be_refused_at_the_commit_is_refused_by_itself(postgres_url):
    with Database(postgres_url) as database:
        database.execute("CREATE TEMPORARY TABLE late (k INTEGER, u INTEGER UNIQUE DEFERRABLE INITIALLY DEFERRED)")
        with database.transaction():
            refused = write_each(database, Upsert("late", ["k", "u"]), [(1, 7), (2, 7), (3, 8)])
        assert [place for place, _ in refused] == [1]
        assert database.execute("SELECT k FROM late ORDER BY k") == [(1,), (3,)]


def test_one_row_object_that_comes_twice_counts_twice(database, table):
    row = ("a", 1, 5, 5, 5, "x")
    with database.transaction():
        assert Upsert(table, COLUMNS, key=["k", "part"], merge=MERGE).write(database, [row, row]) == 1
        last = Upsert(table, ["k", "part", "high"], key=["k", "part"])
        sent = 2 if database.dialect.merges_row_by_row else 1
        assert last.write(database, [("a", 1, 7), ("a", 1, 6)]) == sent
    assert database.execute(f"SELECT n, high FROM {database.dialect.quote(table)}") == [(10, 6)]


def test_refused_rows_are_reported_in_order_whoever_refuses_them(database, table):
    rows = [("a", 1, 2**70, 0, 0, "x"), ("b", 1, 5, 0, 0, "x"), ("c", 1, 5, 0, 0, object())]  # PostgreSQL, then psycopg
    rows += [("b", 1, 5, 0, 0, "y"), ("\ud800", 1, 5, 0, 0, "x")]
    with database.transaction():
        refused = write_each(database, Upsert(table, COLUMNS, key=["k", "part"], merge=MERGE), rows)
    assert [place for place, _ in refused] == [0, 2, 4]
    assert database.execute(f"SELECT k, what, n FROM {database.dialect.quote(table)}") == [("b", "y", 10)]


@pytest.mark.parametrize("size", [2, 300])
def test_the_first_value_stays_and_a_row_that_is_all_key_is_written_once(database, table, size):
    first = Upsert(table, ["k", "what", "part"], key=["k", "part"], merge={"what": "first"})
    rows = [("a", what, n) for what in (None, "x", "y") for n in range(size)]
    keys = [("b", n) for n in range(size)]
    with database.transaction():
        for batch in (rows[:size], rows, [("a", "z", n) for n in range(size)]):
            first.write(database, batch)
        for _ in range(2):
            Upsert(table, ["k", "part"], key=["k", "part"]).write(database, keys * 2)
        Upsert(table, ["k", "part", "n"], key=["k", "part"]).write(
            database, [(*key, n) for n in (0, 1) for key in keys]
        )
    quoted = database.dialect.quote(table)
    assert database.execute(f"SELECT k, what, n, count(*) FROM {quoted} GROUP BY 1, 2, 3 ORDER BY 1") == [
        ("a", "x", None, size),
        ("b", None, 1, size),
    ]


def test_only_surely_equal_keys_are_merged_before_the_database_sees_them():
    upsert = Upsert("t", ["k", "n"], key=["k"], merge={"n": "sum"})
    for keys, left in (
        ([1, "1", b"1", 1.0, "1.0", True, Decimal("1"), None, None], 9),
        ([0.0, -0.0], 2),
        ([Decimal("1.0"), Decimal("1.0"), Decimal("1.00")], 2),
        ([1, 1, "1", "1"], 2),
    ):
        assert len(upsert.merged([(key, 1) for key in keys])) == left, keys


def test_a_commit_that_is_refused_ends_the_transaction(database):
    enforce = "PRAGMA foreign_keys = ON" if database.dialect.keeps_transaction else "SELECT 1"
    for statement in (
        enforce,
        "CREATE TEMPORARY TABLE parent (id INTEGER PRIMARY KEY)",
        "CREATE TEMPORARY TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
    ):
        database.execute(statement)
    for _ in range(2):
        with pytest.raises(database.errors), database.transaction():
            database.execute("INSERT INTO child VALUES (1)")
    assert database.execute("SELECT count(*) FROM child") == [(0,)]


def test_only_an_error_about_its_values_refuses_a_row_and_any_other_ends_the_batch(database, table):
    quoted = database.dialect.quote(table)
    if database.dialect.keeps_transaction:
        codes, says = {"SQLITE_ERROR": False}, "BEGIN SELECT refuse(1); END"
        database.connection.create_function("refuse", 1, lambda code: 1 / 0)
        database.execute(f"CREATE TEMPORARY TRIGGER no BEFORE INSERT ON {quoted} {says}")
    else:
        codes = {"23514": True, "42804": True, "P0001": True, "25006": False, "40001": False, "42P01": False}
        says = "RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'no' USING ERRCODE = NEW.what; END$$"
        database.execute(f"CREATE FUNCTION pg_temp.refuse() {says}")
        database.execute(f"CREATE TRIGGER no BEFORE INSERT ON {quoted} FOR EACH ROW EXECUTE FUNCTION pg_temp.refuse()")
    for code, refused in codes.items():
        with contextlib.nullcontext() if refused else pytest.raises(database.errors), database.transaction():
            rows = [("a", 1, 0, 0, 0, code)]
            assert [place for place, _ in write_each(database, Upsert(table, COLUMNS), rows)] == [0] * refused


def test_a_block_that_raises_writes_nothing(database, table):
    with pytest.raises(KeyError), database.transaction():
        Upsert(table, COLUMNS).write(database, [("a", 1, None, None, None, None)] * 1)
        raise KeyError
    assert database.execute(f"SELECT COUNT(*) FROM {database.dialect.quote(table)}") == [(0,)]


@pytest.mark.parametrize(
    "more",
    [
        {"key": ["nope"]},
        {"key": ["k"], "merge": {"nope": "sum"}},
        {"key": ["k"], "merge": {"k": "sum"}},
        {"merge": {"n": "sum"}},
        {"key": ["k"], "merge": {"n": "avg"}},
    ],
)
def test_a_column_or_rule_that_cannot_be_is_refused(more):
    with pytest.raises(ValueError):
        Upsert("t", COLUMNS, **more)


def test_a_database_that_cannot_be_opened_says_so_in_one_line_without_the_password(tmp_path):
    (tmp_path / "text.db").write_text("this is no database, but it is long enough to be looked at as one" * 20)
    for url in (
        f"sqlite:///{tmp_path}/no/dir.db",
        f"sqlite:///{tmp_path}/text.db",
        "postgresql://me:s3cret@127.0.0.1:1/db",
    ):
        with pytest.raises(DatabaseError) as caught:
            Database(url)
        assert isinstance(caught.value.__cause__, DatabaseUrl.parse(url).dialect.errors)
        assert (
            "cannot open" in str(caught.value) and "s3cret" not in str(caught.value) and "\n" not in str(caught.value)
        )


def test_a_batch_is_written_in_the_order_of_its_keys():
    upsert = Upsert("t", ["b", "a", "n"], key=["a", "b"], merge={"n": "sum"})
    rows = [(b, a, 1) for a in (3, 1, 2) for b in "zyx"] * 2
    assert [(row[1], row[0], row[2]) for row in upsert.merged(rows)] == [(a, b, 2) for a in (1, 2, 3) for b in "xyz"]


@pytest.mark.parametrize(
    "write", [lambda upsert, *of: upsert.write(*of), lambda upsert, *of: write_each(of[0], upsert, of[1])]
)
@pytest.mark.parametrize("whose", ["sqlite3.dbapi2", "the program's"])
def test_sqlite_gets_dates_as_text_and_the_drivers_own_adapters_are_not_asked(tmp_path, monkeypatch, write, whose):
    def adapter(value):
        return f"adapted {value.year}"

    adapter.__module__ = whose
    for kind in (datetime, date):
        monkeypatch.setitem(sqlite3.adapters, (kind, sqlite3.PrepareProtocol), adapter)
    at = datetime(2025, 1, 2, 3, 4, 5, 600, tzinfo=timezone.utc)
    rows = [(1, at, b"x"), (2, date(2025, 1, 2), at.replace(tzinfo=None, microsecond=0)), [3, "plain", None]]
    with Database(f"sqlite:///{tmp_path}/dates.db") as database, database.transaction():
        database.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, a TEXT, b TEXT)")
        write(Upsert("t", ["n", "a", "b"]), database, rows)
        found = database.execute("SELECT a, b FROM t ORDER BY n")
    texts = ["2025-01-02 03:04:05.000600+00:00", "2025-01-02", "2025-01-02 03:04:05"]
    first, second, third = texts if whose == "sqlite3.dbapi2" else ["adapted 2025"] * 3
    assert found == [(first, b"x"), (second, third), ("plain", None)]
