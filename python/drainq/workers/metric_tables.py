"""Creates, writes, reads and clears the tables of declared metrics.

1. ``NAME_PERIOD`` has a row for each key and period. ``NAME_PERIOD_COLUMN`` has a row for each bucket of a percentile,
   or for each distinct value.
2. A transaction writes whole entries, so the tables of one period always agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from drainq.delivery.sink_contract import Attempt
from drainq.sql import Database, DatabaseUrl, Dialect, Upsert
from drainq.workers.merged import quantiles
from drainq.workers.metric import PERIODS, Metric
from drainq.workers.sql_sink import TableSink


class MetricTable:
    """One table of a metric: its columns with their types, and how its rows merge."""

    def __init__(self, name: str, key: Mapping[str, str], merged: Mapping[str, tuple[str, str]]) -> None:
        self.name, self.key, self.merged = name, dict(key), dict(merged)
        rules = {column: rule for column, (_, rule) in merged.items()}
        self.upsert = Upsert(name, [*key, *merged], key=list(key), merge=rules)

    def create(self, dialect: Dialect) -> str:
        """Return the statement that creates the table unless it exists."""
        columns = {**self.key, **{column: kind for column, (kind, _) in self.merged.items()}}
        parts = [f"{dialect.quote(column)} {dialect.types[kind]}" for column, kind in columns.items()]
        key = ", ".join(map(dialect.quote, self.key))
        return f"CREATE TABLE IF NOT EXISTS {dialect.quote(self.name)} ({', '.join(parts)}, PRIMARY KEY ({key}))"


def tables_of(metric: Metric) -> list[MetricTable]:
    """Return all tables of a metric, those of the finest period first."""
    kinds = {column: "int" if column in metric.integers else "text" for column in metric.keys}
    key = {**kinds, "time": "int"}
    found = []
    for name in metric.tables.values():
        merged: dict[str, tuple[str, str]] = {}
        beside = []
        for column, value in metric.values.items():
            if value.kind == "average":
                merged |= {f"{column}_sum": ("number", "sum"), f"{column}_count": ("int", "sum")}
            elif value.kind == "percentile":
                buckets = {**key, "sign": "int", "bucket": "int"}
                beside.append(MetricTable(f"{name}_{column}", buckets, {"n": ("int", "sum")}))
            elif value.kind == "distinct":
                beside.append(MetricTable(f"{name}_{column}", {**key, "value": "text"}, {}))
            else:
                merged[column] = ("int", "sum") if value.kind == "count" else ("number", value.kind)
        found += [MetricTable(name, key, merged), *beside]
    return found


def _columns_with_tables(metric: Metric) -> list[str]:
    """Return the columns that have a separate table in each period."""
    return [column for column, value in metric.values.items() if value.kind in ("percentile", "distinct")]


class MetricsSink(TableSink):
    """Writes entries of declared metrics; see :mod:`drainq.workers.merged`."""

    def __init__(self, url: str | DatabaseUrl, metrics: Iterable[Metric], *, create: bool) -> None:
        self.url = url if isinstance(url, DatabaseUrl) else DatabaseUrl.parse(url)
        self.tables = {table.name: table for metric in metrics for table in tables_of(metric)}
        self.unchecked = False
        self._begin()
        with Database(self.url) as database:
            if create:
                with database.transaction():
                    database.dialect.lock_creation(database.connection, "drainq declared metrics")
                    for table in self.tables.values():
                        database.execute(table.create(database.dialect))
            self._check(database, [table.upsert for table in self.tables.values()])

    def _send(
        self, database: Database, items: list[Any], attempt: Attempt, upsert: Upsert | None
    ) -> list[tuple[int | None, object]]:
        """Write entries in one transaction."""
        rows: dict[str, list[Any]] = {}
        for _, of_entry in items:
            for table, row in of_entry:
                rows.setdefault(table, []).append(row)
        with self._transaction(database, attempt, []):
            for name in sorted(rows):
                self.tables[name].upsert.write(database, rows[name])
        return []

    def described(self, item: Any) -> str:
        """Return the names of the tables for which the entry has rows."""
        return f"rows for {sorted({table for table, _ in item[1]})}"

    def clear(self, metric: Metric, now: float) -> None:
        """Delete the rows whose period ended longer ago than the metric keeps them."""
        with self._connection() as database:
            mark, quote = database.dialect.placeholder, database.dialect.quote
            for period, name in metric.tables.items():
                if period not in metric.keep:
                    continue
                last = math.floor(now - metric.keep[period] - PERIODS[period])  # the limit that a flush uses, too
                for table in (name, *(f"{name}_{column}" for column in _columns_with_tables(metric))):
                    with database.transaction():
                        statement = f"DELETE FROM {quote(table)} WHERE {quote('time')} <= {mark}"
                        database.execute(statement, [last])

    def rows(self, metric: Metric, period: str, since: float | None, until: float | None) -> list[dict[str, Any]]:
        """Return the rows of a period with their computed values, in the order of time and key."""
        name, keys = metric.tables[period], [*metric.keys, "time"]
        with self._connection() as database, database.transaction():
            found = self._select(database, name, since, until)
            beside = {
                column: self._select(database, f"{name}_{column}", since, until)
                for column in _columns_with_tables(metric)
            }
        grouped: dict[str, dict[tuple[Any, ...], list[Any]]] = {}
        for column, of_column in beside.items():
            groups = grouped[column] = {}
            for row in of_column:
                groups.setdefault(row[: len(keys)], []).append(row[len(keys) :])
        return [
            self._row(metric, keys, row, grouped) for row in sorted(found, key=lambda row: (row[len(keys) - 1], row))
        ]

    def _row(self, metric: Metric, keys: list[str], row: tuple[Any, ...], grouped: Mapping[str, Any]) -> dict[str, Any]:
        key = row[: len(keys)]
        answer = dict(zip(keys, key))
        rest = iter(row[len(keys) :])
        for column, value in metric.values.items():
            if value.kind == "percentile":
                of_key = grouped[column].get(key, [])
                for percent, quantile in zip(value.percents, quantiles(value, of_key)):
                    answer[f"{column}_p{percent:g}"] = quantile
            elif value.kind == "distinct":
                answer[column] = len(grouped[column].get(key, []))
            elif value.kind == "average":
                total, count = next(rest), next(rest)
                answer[column] = float(total) / count if count else None
            else:
                answer[column] = _number(next(rest))
        return answer

    def _select(self, database: Database, name: str, since: float | None, until: float | None) -> list[tuple[Any, ...]]:
        quote, mark = database.dialect.quote, database.dialect.placeholder
        columns = ", ".join(map(quote, self.tables[name].upsert.columns))
        limits = {f"{quote('time')} >= {mark}": since, f"{quote('time')} < {mark}": until}
        wanted = {text: value for text, value in limits.items() if value is not None}
        where = f" WHERE {' AND '.join(wanted)}" if wanted else ""
        return database.execute(f"SELECT {columns} FROM {quote(name)}{where}", list(wanted.values()))


def _number(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value
