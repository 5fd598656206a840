"""The tables of the job: names, columns, keys and meanings.

1. A metric's table is derived from its type, so a new type is one class in :mod:`drainq.metrics.metric_types`.
2. Every summed column is an INTEGER of 64 bits. Every derived column can be computed again from the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drainq.metrics.metric_types import METRICS, JobMetric
from drainq.sql import Database, DatabaseError, Dialect, Upsert
from drainq.sql.error_text import error_text

PERCENTS = (50, 90, 99)
PERCENTILE_COLUMNS = tuple(f"p{percent}_ms" for percent in PERCENTS)
LATENCY = "latency"
"""The sketch of the percentiles, as bytes of :class:`drainq.sketch.DDSketch`."""


@dataclass(frozen=True)
class JobTable:
    """A table: its name, the meaning of a row, its columns with types, the primary key, and the summed columns.

    ``in_key_order``: SQLite keeps the rows in the key itself, which halves the writes.
    """

    name: str
    row: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()
    in_key_order: bool = False

    def create(self, dialect: Dialect) -> str:
        """Return the statement that creates the table unless it exists."""
        parts = [f"{dialect.quote(name)} {dialect.types[kind]}" for name, kind in self.columns]
        if self.key:
            parts.append(self._primary_key(dialect))
        kept = dialect.rows_in_key if self.in_key_order else ""
        return f"CREATE TABLE IF NOT EXISTS {dialect.quote(self.name)} ({', '.join(parts)}){kept}"

    def _primary_key(self, dialect: Dialect) -> str:
        return f"PRIMARY KEY ({', '.join(map(dialect.quote, self.key))})"

    def drop_key(self, dialect: Dialect) -> str:
        """Return PostgreSQL's statement that drops the primary key with its index."""
        return f"ALTER TABLE {dialect.quote(self.name)} DROP CONSTRAINT {dialect.quote(f'{self.name}_pkey')}"

    def add_key(self, dialect: Dialect) -> str:
        """Return PostgreSQL's statement that adds the primary key again."""
        return f"ALTER TABLE {dialect.quote(self.name)} ADD {self._primary_key(dialect)}"

    def upsert(self, *, first: bool) -> Upsert:
        """Return the statement that adds rows to the table. ``first``: the table is empty, so nothing is merged."""
        if first:
            return Upsert(self.name, self.names)
        return Upsert(self.name, self.names, key=self.key, merge=dict.fromkeys(self.sums, "sum"))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(name for name, _ in self.columns)


def _metric_table(metric: type[JobMetric]) -> JobTable:
    keys = [(key, "int" if key == "status" else "text") for key in metric.keys()]
    sums = [(column, "int") for column in metric.aggregates if column != LATENCY]
    derived = [(column, "float") for column in PERCENTILE_COLUMNS] + [(LATENCY, "bytes")]
    row = " ".join((metric.__doc__ or "").split())
    columns = (*keys, *sums, *(derived if LATENCY in metric.aggregates else []))
    return JobTable(metric.table, row, columns, metric.keys(), tuple(name for name, _ in sums), in_key_order=True)


METRIC_TABLES: dict[type[JobMetric], JobTable] = {metric: _metric_table(metric) for metric in METRICS}
TOP_ENDPOINTS = JobTable(
    "top_endpoints",
    "The paths with the most requests over everything loaded, rank 1 first; exact.",
    (("rank", "int"), ("endpoint", "text"), ("requests", "int"), ("bytes", "int")),
    ("rank",),
)
BAD_LINES = JobTable(
    "bad_lines",
    "One of the first 1,000 lines of a log that are no record, and why; line 1 is the first.",
    (("source", "text"), ("line_number", "int"), ("line", "text"), ("reason", "text")),
)
BAD_REASONS = JobTable(
    "bad_reasons",
    "How many lines of a log are no record, by reason.",
    (("source", "text"), ("reason", "text"), ("lines", "int")),
    ("source", "reason"),
    ("lines",),
)
SOURCES = JobTable(
    "sources",
    "A log that was loaded, by the SHA-256 of its uncompressed content.",
    (
        ("sha256", "text"),
        ("source", "text"),
        ("lines", "int"),
        ("parsed", "int"),
        ("bad", "int"),
        ("loaded_at", "text"),
    ),
    ("sha256",),
)
FOLLOWED = JobTable(
    "followed",
    "A file that is or was followed, by its directory and inode: how much of it is counted.",
    (
        ("directory", "text"),
        ("inode", "text"),
        ("name", "text"),
        ("bytes", "int"),
        ("changed", "int"),
        ("lines", "int"),
        ("parsed", "int"),
        ("bad", "int"),
        ("head", "text"),
        ("sha256", "text"),
    ),
    ("directory", "inode"),
)
TABLES: tuple[JobTable, ...] = (*METRIC_TABLES.values(), TOP_ENDPOINTS, BAD_LINES, BAD_REASONS, SOURCES, FOLLOWED)


def create_tables(database: Database) -> None:
    """Create the tables that do not exist yet.

    Raises:
        DatabaseError: a table of such a name has other columns.
    """
    with database.transaction():
        database.dialect.lock_creation(database.connection, "drainq metrics tables")
        for table in TABLES:
            database.execute(table.create(database.dialect))
    for table in TABLES:
        of = database.dialect.quote(table.name)  # without the table's name SQLite takes an unknown column for a text
        names = ", ".join(f"{of}.{database.dialect.quote(name)}" for name in table.names)
        try:
            database.execute(f"SELECT {names} FROM {of} LIMIT 0")
        except database.errors as error:
            raise DatabaseError(
                f"the table {table.name!r} in {database.url} is not as this version makes it ({error_text(error)}); "
                "name another database with --db, and load the logs into it"
            ) from error


def describe(tables: Sequence[JobTable] = TABLES) -> str:
    """Describe the tables in words, for the help."""
    lines = []
    for table in tables:
        columns = ", ".join(f"{name} {Dialect.SQLITE.types[kind]}" for name, kind in table.columns)
        lines.append(f"  {table.name}({columns})\n      {table.row}")
    return "\n".join(lines)
