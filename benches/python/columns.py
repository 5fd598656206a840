"""The figures of columns: parsing, aggregates by key, and sketches, compared with other libraries.

python -m benches.python.columns

Processor time of the whole process, threads of all libraries included. The lines are those of ``../shared/data``, over
and over, each with a request time of its own at its end.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from benches.protocol import Below, Faster, Report, arguments, measure, wanted
from ddsketch import DDSketch as Other

from drainq.columns import GroupBy, parse_access_log
from drainq.sketch import DDSketch

LOG = Path(__file__).parents[2] / ".." / "shared" / "data" / "apache_access.log"
BATCH = 20_000  # rows at once, as a Spark task gets them
OURS = "drainq"
MOST = 0.6e-6  # seconds a line, parsed and aggregated

COUNTS = {"requests": "count", "size": "sum", "errors": "sum"}
TABLES: list[tuple[list[str], dict[str, str]]] = [
    (["minute"], COUNTS),
    (["endpoint", "minute"], COUNTS),
    (["status", "minute"], {"requests": "count"}),
    (["client", "hour"], COUNTS),
    (["agent", "day"], {"requests": "count"}),
    (["referrer", "day"], {"requests": "count"}),
    (["endpoint", "minute"], {"milliseconds": "sketch"}),
]


def cost(work: Callable[[], object], items: int) -> Callable[[], float]:
    """Measure one round: the processor seconds of this process for one item."""

    def once() -> float:
        started = time.process_time()
        work()
        return (time.process_time() - started) / items

    return once


def lines_of(log: Path, count: int) -> list[bytes]:
    """Lines of the log with request times."""
    dice = random.Random(1)
    real = log.read_bytes().split(b"\n")[:-1]
    return [b"%s %.3f" % (real[place % len(real)], dice.lognormvariate(-3, 1.2)) for place in range(count)]


def parsed(pieces: list[bytes]) -> Iterator[pa.RecordBatch]:
    for piece in pieces:
        yield parse_access_log(piece)[0]


def with_periods(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Add the columns by which the tables are grouped."""
    second, status = batch["second"].to_numpy(), batch["status"].to_numpy()
    more = {"minute": second // 60 * 60, "hour": second // 3600 * 3600, "day": second // 86400 * 86400}
    more["errors"] = (status >= 400).astype(np.int64)
    columns = [*batch.columns, *map(pa.array, more.values())]
    return pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, *more])


def tables(pieces: list[bytes]) -> list[pa.RecordBatch]:
    """Aggregate the seven tables of ``drainq metrics``."""
    groups = [GroupBy(keys, aggregates) for keys, aggregates in TABLES]
    for batch in parsed(pieces):
        columns = with_periods(batch)
        for group in groups:
            group.add(columns)
    return [group.result() for group in groups]


PATTERN = (
    r'^([^ "]+) [^ "]+ [^"\[]*[^ "\[] \[([^\]"]*)\] "([^"\\]*(?:\\.[^"\\]*)*)" ([0-9]{3}) ([0-9]{1,15}|-)'
    r'(?: "([^"\\]*(?:\\.[^"\\]*)*)" "([^"\\]*(?:\\.[^"\\]*)*)")?(?: ([0-9.]+|-))?$'
)


def by_polars(lines: pl.Series) -> pl.DataFrame:
    """Parse the fields by one regular expression, with times and numbers converted."""
    found = lines.str.extract_groups(PATTERN).struct.unnest()
    found.columns = ["client", "stamp", "request", "status", "size", "referrer", "agent", "seconds"]
    return found.with_columns(
        pl.col("stamp").str.to_datetime("%d/%b/%Y:%H:%M:%S %z", strict=False),
        pl.col("request").str.extract(r"^[A-Za-z]+ ([^ ?]*)").alias("endpoint"),
        pl.col("status").cast(pl.Int64),
        pl.col("size").cast(pl.Int64, strict=False).fill_null(0),
        pl.col("seconds").cast(pl.Float64, strict=False),
    )


def parsing(report: Report, count: int) -> None:
    lines = lines_of(LOG, count)
    pieces = [b"\n".join(lines[begin : begin + BATCH]) for begin in range(0, count, BATCH)]
    texts = pl.Series([line.decode("utf-8", "replace") for line in lines])
    report.add(
        measure(
            "lines of an access log to columns",
            "cpu-s/line",
            {
                OURS: cost(lambda: list(parsed(pieces)), count),
                "polars, a regular expression": cost(lambda: by_polars(texts), count),
            },
            rounds=report.options.rounds or (3 if report.options.quick else 11),
            goals=[Faster(OURS, "polars, a regular expression", 2.0)],
            note="the real lines with a request time; by polars the endpoint of a plain request only",
        )
    )
    report.add(
        measure(
            "lines of an access log to the seven tables of drainq metrics",
            "cpu-s/line",
            {
                OURS: cost(lambda: tables(pieces), count),
            },
            rounds=report.options.rounds or (3 if report.options.quick else 11),
            goals=[Below(OURS, MOST, "cpu-s/line")],
            note="with a sketch for each endpoint and minute",
        )
    )


def grouping(report: Report, count: int) -> None:
    grouped(report, count, "few", 1_000)
    grouped(report, count, "many", count // 2)


def grouped(report: Report, count: int, name: str, paths: int) -> None:
    dice = np.random.default_rng(1)
    names = pa.array([f"/path/number/{place}" for place in range(paths)])
    path = names.take(pa.array(dice.integers(0, paths, count)))
    table = pa.table({"path": path, "minute": dice.integers(0, 3, count), "bytes": dice.integers(0, 10**6, count)})
    batches, frame = table.to_batches(max_chunksize=BATCH), pl.DataFrame(table)
    keys = ["path", "minute"]
    connection = duckdb.connect()
    connection.register("held", table)

    def ours() -> GroupBy:
        groups = GroupBy(keys, {"bytes": "sum", "requests": "count"})
        for batch in batches:
            groups.add(batch)
        groups.result()
        return groups

    def by_pyarrow() -> pa.Table:
        return table.group_by(keys, use_threads=False).aggregate([("bytes", "sum"), ("bytes", "count")])

    def by_polars() -> pl.DataFrame:
        return frame.group_by(keys).agg(pl.col("bytes").sum(), pl.len())

    def by_duckdb() -> pa.Table:
        return connection.sql("SELECT path, minute, sum(bytes), count(*) FROM held GROUP BY ALL").to_arrow_table()

    rivals = {"pyarrow": by_pyarrow, "polars": by_polars, "duckdb": by_duckdb}
    report.add(
        measure(
            f"sum and count by text and number, {name} groups",
            "cpu-s/row",
            {rival: cost(work, count) for rival, work in {OURS: ours, **rivals}.items()},
            rounds=report.options.rounds or (3 if report.options.quick else 11),
            goals=[Faster(OURS, rival, 1.0) for rival in rivals if rival != "pyarrow"],
            note=f"{count:,} rows, {len(ours()):,} groups; drainq takes batches of {BATCH:,} rows, the others the whole table",
        )
    )


def sketches(report: Report, count: int) -> None:
    values = np.random.default_rng(1).lognormal(-3, 1.2, count)
    listed = values.tolist()

    def ours() -> DDSketch:
        sketch = DDSketch()
        add = sketch.add
        for value in listed:
            add(value)
        return sketch

    def ours_at_once(these: object) -> DDSketch:
        sketch = DDSketch()
        sketch.add_many(these)  # type: ignore[arg-type]
        return sketch

    def theirs() -> Other:
        sketch = Other(0.01)
        add = sketch.add
        for value in listed:
            add(value)
        return sketch

    report.add(
        measure(
            "a value into a sketch of quantiles",
            "cpu-s/value",
            {
                "drainq, add": cost(ours, count),
                "drainq, add_many of a list": cost(lambda: ours_at_once(listed), count),
                "drainq, add_many of an array": cost(lambda: ours_at_once(values), count),
                "ddsketch": cost(theirs, count),
            },
            rounds=report.options.rounds or (3 if report.options.quick else 11),
            goals=[Faster("drainq, add", "ddsketch", 5.0), Faster("drainq, add_many of an array", "ddsketch", 50.0)],
            note="lognormal latencies, relative accuracy 0.01",
        )
    )


def main() -> int:
    """Run the figures that were asked for."""
    options = arguments("columns")
    versions = {"pyarrow": pa.__version__, "polars": pl.__version__, "duckdb": duckdb.__version__}
    report = Report("columns", options, versions)
    count = 40_000 if options.quick else 400_000
    for add in (parsing, grouping, sketches):
        if wanted(add.__name__, options):
            add(report, count)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
