"""The rivals of ``drainq metrics``: programs that fill the same tables, each in a new process.

python -m benches.versus.metrics WAY LOG DIRECTORY

Each way reads with one regular expression, groups by the keys of the six tables, works out the 50th, 90th and 99th
percentile of the request times, and writes the tables: DuckDB into its own file, polars and Spark into Parquet, plain Python into
SQLite. None keeps bad lines, sketches that merge with those of a later load, or the knowledge of which logs were loaded.
Prints the number of requests and of endpoints by minute, for the comparison.
"""

from __future__ import annotations

import datetime
import re
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benches.access_logs import NGINX_NAMES, PATTERN

FIELDS = ["client", "stamp", "request", "status", "size", "referrer", "agent", "seconds"]
PATH = r"^[A-Za-z]+ ([^ ?]*)"
TABLES = {
    "service_minute": (["minute"], True),
    "endpoint_minute": (["endpoint", "minute"], True),
    "status_minute": (["status", "minute"], False),
    "client_hour": (["client", "hour"], False),
    "user_agent_day": (["agent", "day"], False),
    "referrer_day": (["referrer", "day"], False),
}
"""Keys, and whether there are percentiles."""


def by_duckdb(log: str, out: Path) -> tuple[int, int]:
    """SQL, in DuckDB's own file."""
    import duckdb

    connection = duckdb.connect(str(out / "metrics.duckdb"))
    names = ", ".join(f"'{name}'" for name in FIELDS)
    if log.endswith(".json"):
        columns = ", ".join(f"{name}: 'VARCHAR'" for name in NGINX_NAMES)
        packed = ", ".join(f"{field} := {name}" for field, name in zip(FIELDS, NGINX_NAMES))
        fields = f"""SELECT struct_pack({packed}) AS r
            FROM read_json('{log}', format='newline_delimited', columns={{{columns}}})"""
    else:
        fields = f"""SELECT regexp_extract(line, '{PATTERN}', [{names}]) AS r
            FROM read_csv('{log}', columns={{'line': 'VARCHAR'}}, delim='\x01', quote='', escape='', header=false,
                          auto_detect=false, max_line_size=10000000)"""
    connection.execute(f"""CREATE TEMP TABLE records AS
        SELECT r.client, r.referrer, r.agent, CAST(r.status AS INTEGER) AS status, coalesce(try_cast(r.size AS BIGINT), 0) AS size,
            regexp_extract(r.request, '{PATH}', 1) AS endpoint, try_cast(nullif(r.seconds, '') AS DOUBLE) * 1000 AS ms,
            date_trunc('minute', t) AS minute, date_trunc('hour', t) AS hour, date_trunc('day', t) AS day
        FROM (SELECT r, strptime(r.stamp, '%d/%b/%Y:%H:%M:%S %z') AS t
              FROM ({fields}) WHERE r.status <> '')""")
    for table, (keys, timed) in TABLES.items():
        more = ", quantile_disc(ms, [0.5, 0.9, 0.99]) AS p" if timed else ""
        connection.execute(
            f"CREATE TABLE {table} AS SELECT {', '.join(keys)}, count(*) AS requests, sum(size) AS bytes, "
            f"count(*) FILTER (status >= 400) AS errors{more} FROM records GROUP BY ALL"
        )
    found = connection.execute("SELECT sum(requests), count(*) FROM endpoint_minute").fetchone()
    connection.close()
    return found  # type: ignore[return-value]


def by_polars(log: str, out: Path) -> tuple[int, int]:
    """Data frames, in Parquet files."""
    import polars as pl

    lines = pl.read_csv(
        log, has_header=False, separator="\x01", quote_char=None, new_columns=["line"], encoding="utf8-lossy"
    )
    fields = lines["line"].str.extract_groups(PATTERN).struct.unnest()
    fields.columns = FIELDS
    time = pl.col("stamp").str.to_datetime("%d/%b/%Y:%H:%M:%S %z", strict=False)
    records = (
        fields.lazy()
        .filter(pl.col("status").is_not_null())
        .select(
            "client", "referrer", "agent", pl.col("status").cast(pl.Int32),
            pl.col("size").cast(pl.Int64, strict=False).fill_null(0),
            pl.col("request").str.extract(PATH).alias("endpoint"),
            (pl.col("seconds").cast(pl.Float64, strict=False) * 1000).alias("ms"),
            time.dt.truncate("1m").alias("minute"), time.dt.truncate("1h").alias("hour"), time.dt.truncate("1d").alias("day"),
        )
        .collect()
    )  # fmt: skip
    counts = (0, 0)
    for table, (keys, timed) in TABLES.items():
        quantiles = [pl.col("ms").quantile(q).alias(f"p{round(100 * q)}") for q in (0.5, 0.9, 0.99)] if timed else []
        errors = (pl.col("status") >= 400).sum().alias("errors")
        sums = (
            [pl.len().alias("requests"), pl.col("size").sum().alias("bytes"), errors]
            if keys != ["status", "minute"]
            else [pl.len()]
        )
        rows = records.group_by(keys).agg(*sums, *quantiles)
        rows.write_parquet(out / f"{table}.parquet")
        if table == "endpoint_minute":
            counts = (int(rows["requests"].sum()), len(rows))
    return counts


def by_spark(log: str, out: Path) -> tuple[int, int]:
    """Spark SQL, in Parquet files."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    from drainq.metrics.spark_session import DEFAULT_MASTER, Launch, settings_for

    with Launch(settings_for(DEFAULT_MASTER, out, "1g"), out / "spark.log") as launch:
        spark = SparkSession(launch.context())
        whole = F.regexp_replace("value", PATTERN, "$1\x01$2\x01$3\x01$4\x01$5\x01$6\x01$7\x01$8")
        parts = F.split(whole, "\x01")
        fields = spark.read.text(log).select(parts.alias("f")).filter(F.size("f") == len(FIELDS))
        named = fields.select(*(F.col("f")[place].alias(name) for place, name in enumerate(FIELDS)))
        time = F.to_timestamp("stamp", "dd/MMM/yyyy:HH:mm:ss Z")
        records = named.select(
            "client", "referrer", "agent", F.col("status").cast("int").alias("status"),
            F.coalesce(F.expr("try_cast(size AS bigint)"), F.lit(0)).alias("size"),
            F.regexp_extract("request", PATH, 1).alias("endpoint"),
            (F.expr("try_cast(seconds AS double)") * 1000).alias("ms"), F.date_trunc("minute", time).alias("minute"),
            F.date_trunc("hour", time).alias("hour"), F.date_trunc("day", time).alias("day"),
        ).cache()  # fmt: skip
        for table, (keys, timed) in TABLES.items():
            sums = [
                F.count("*").alias("requests"),
                F.sum("size").alias("bytes"),
                F.count_if(F.col("status") >= 400).alias("errors"),
            ]
            more = [F.percentile_approx("ms", [0.5, 0.9, 0.99], 100).alias("p")] if timed else []
            rows = (
                records
                if keys != ["status", "minute"]
                else records.withColumnRenamed("status", "s").withColumn("status", F.col("s"))
            )
            rows.groupBy(*keys).agg(*sums, *more).write.parquet(str(out / table))
        found = spark.read.parquet(str(out / "endpoint_minute")).agg(F.sum("requests"), F.count("*")).first()
    return int(found[0]), int(found[1])


def by_python(log: str, out: Path) -> tuple[int, int]:
    """Aggregate in one process, with a dictionary for each table, into SQLite."""
    line = re.compile(PATTERN.encode())
    path = re.compile(PATH.encode())
    found: dict[str, dict[Any, list[Any]]] = {table: {} for table in TABLES}
    stamps: dict[bytes, tuple[str, str, str]] = {}
    with open(log, "rb") as file:
        for text in file:
            match = line.match(text[:-1])
            if not match:
                continue
            client, stamp, request, status, size, referrer, agent, seconds = match.groups()
            times = stamps.get(stamp)
            if times is None:
                moment = datetime.datetime.strptime(stamp.decode(), "%d/%b/%Y:%H:%M:%S %z").astimezone(
                    datetime.timezone.utc
                )
                times = stamps[stamp] = (f"{moment:%Y-%m-%dT%H:%MZ}", f"{moment:%Y-%m-%dT%HZ}", f"{moment:%Y-%m-%d}")
            minute, hour, day = times
            endpoint = path.match(request)
            named = endpoint[1] if endpoint else b"-"
            count, failed = 0 if size == b"-" else int(size), status >= b"400"
            keys = (minute,), (named, minute), (status, minute), (client, hour), (agent, day), (referrer, day)
            for (table, (_, timed)), key in zip(TABLES.items(), keys):
                sums = found[table].get(key)
                if sums is None:
                    sums = found[table][key] = [0, 0, 0, []]
                sums[0] += 1
                sums[1] += count
                sums[2] += failed
                if timed and seconds:
                    sums[3].append(float(seconds))
    with sqlite3.connect(out / "metrics.db") as connection:
        for table, (names, _) in TABLES.items():
            columns = [*names, "requests", "bytes", "errors", "p50", "p90", "p99"]
            connection.execute(f"CREATE TABLE {table} ({', '.join(columns)}, PRIMARY KEY ({', '.join(names)}))")
            rows = ((*key, *sums[:3], *_percentiles(sums[3])) for key, sums in found[table].items())
            connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", rows)
    minutes = found["endpoint_minute"]
    return sum(sums[0] for sums in minutes.values()), len(minutes)


def _percentiles(times: list[float]) -> list[float | None]:
    times.sort()
    return [times[max(0, -(-len(times) * percent // 100) - 1)] if times else None for percent in (50, 90, 99)]


WAYS: dict[str, Callable[[str, Path], tuple[int, int]]] = {
    "DuckDB": by_duckdb,
    "polars": by_polars,
    "Spark SQL": by_spark,
    "plain Python": by_python,
}

if __name__ == "__main__":
    print(*WAYS[sys.argv[1]](sys.argv[2], Path(sys.argv[3])))
