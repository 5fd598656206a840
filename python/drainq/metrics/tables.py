"""The tables that the job fills: names, columns, keys, and what they mean.

1. A metric's table is made from its type, so a new type is one class in :mod:`drainq.metrics.types`.
2. Everything that adds up is an INTEGER (64 bits); everything derived can be made again from what is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drainq.metrics.sketch import PERCENTILES
from drainq.metrics.types import METRICS, EndpointMinute, JobMetric, ServiceMinute
from drainq.sql import Database, Dialect, Upsert

SQL_TYPES = {Dialect.SQLITE: {"float": "REAL", "int": "INTEGER", "text": "TEXT"},
             Dialect.POSTGRESQL: {"float": "DOUBLE PRECISION", "int": "BIGINT", "text": "TEXT"}}  # fmt: skip
PERCENTILE_COLUMNS = tuple(f"p{percent}_ms" for percent in PERCENTILES)
WITH_PERCENTILES: tuple[type[JobMetric], ...] = (ServiceMinute, EndpointMinute)


@dataclass(frozen=True)
class JobTable:
    """A table's name, what a row is, its columns with their types, and the primary key."""

    name: str
    row: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...] = ()

    def create(self, dialect: Dialect) -> str:
        """The statement that makes the table unless it is there."""
        types = SQL_TYPES[dialect]
        parts = [f"{dialect.quote(name)} {types[kind]}" for name, kind in self.columns]
        if self.key:
            parts.append(f"PRIMARY KEY ({', '.join(map(dialect.quote, self.key))})")
        return f"CREATE TABLE IF NOT EXISTS {dialect.quote(self.name)} ({', '.join(parts)})"

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(name for name, _ in self.columns)


def _metric_table(metric: type[JobMetric]) -> JobTable:
    kinds = {"name": "text", "number": "int", "time": "text"}
    keys = [(metric.columns[key], kinds[key]) for key in metric.keys]
    sums = [(column, "int") for column in metric.sums]
    derived = [(column, "float") for column in PERCENTILE_COLUMNS] if metric in WITH_PERCENTILES else []
    row = " ".join((metric.__doc__ or "").split())
    return JobTable(metric.table, row, (*keys, *sums, *derived), tuple(name for name, _ in keys))


METRIC_TABLES: dict[type[JobMetric], JobTable] = {metric: _metric_table(metric) for metric in METRICS}
TOP_ENDPOINTS = JobTable(
    "top_endpoints",
    "The paths with the most requests over everything loaded, rank 1 first; exact.",
    (("rank", "int"), ("endpoint", "text"), ("requests", "int"), ("bytes", "int")),
    ("rank",),
)
BAD_LINES = JobTable(
    "bad_lines",
    "A line that is no log record, and why; line 1 is the first.",
    (("source", "text"), ("line_number", "int"), ("line", "text"), ("reason", "text")),
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
TABLES: tuple[JobTable, ...] = (*METRIC_TABLES.values(), TOP_ENDPOINTS, BAD_LINES, SOURCES)


def metric_upsert(metric: type[JobMetric]) -> Upsert:
    """Adds a metric's rows to those that are there."""
    table = METRIC_TABLES[metric]
    columns = [metric.columns[key] for key in metric.keys] + list(metric.sums)
    return Upsert(table.name, columns, key=table.key, merge=dict.fromkeys(metric.sums, "sum"))


def create_tables(database: Database) -> None:
    """Make the tables that are not there yet."""
    with database.transaction():
        if database.dialect is Dialect.POSTGRESQL:  # two that create one table at once would fail
            database.execute("SELECT pg_advisory_xact_lock(hashtext('drainq metrics tables'))")
        for table in TABLES:
            database.execute(table.create(database.dialect))


def describe(tables: Sequence[JobTable] = TABLES) -> str:
    """The tables in words, for the help."""
    lines = []
    for table in tables:
        columns = ", ".join(f"{name} {SQL_TYPES[Dialect.SQLITE][kind]}" for name, kind in table.columns)
        lines.append(f"  {table.name}({columns})\n      {table.row}")
    return "\n".join(lines)
