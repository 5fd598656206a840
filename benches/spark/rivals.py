"""The rivals in Spark tasks, written by hand without drainq: each is a function for ``mapInArrow`` that returns a row."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

CHUNK = 1000  # rows of a call to the service
CALL = 0.005  # seconds that a call takes
THREADS = 8

Batches = Iterator[Any]
Task = Callable[[Batches], Batches]


def call(rows: Any) -> int:
    """Simulate a service that takes time for a batch. Return the number of rows."""
    time.sleep(CALL)
    return len(rows)


def chunks(batches: Batches, form: str) -> Iterator[Any]:
    """Batches of rows, as lists of tuples or as slices of Arrow's."""
    for batch in batches:
        rows = batch if form == "arrow" else list(zip(*(column.to_pylist() for column in batch.columns)))
        for start in range(0, len(rows) if form != "arrow" else batch.num_rows, CHUNK):
            yield rows.slice(start, CHUNK) if form == "arrow" else rows[start : start + CHUNK]


def counted(rows: int) -> Any:
    """Return the result of a task."""
    return pa.RecordBatch.from_pydict({"n": [rows]})


def loop(form: str) -> Task:
    """Call the service for one batch after the other."""

    def task(batches: Batches) -> Batches:
        yield counted(sum(map(call, chunks(batches, form))))

    return task


def threads(form: str) -> Task:
    """Hand batches to threads through a ``queue.Queue``: fifteen lines, without retries or an account."""

    def task(batches: Batches) -> Batches:
        waiting: queue.Queue[Any] = queue.Queue(2 * THREADS)
        failed: list[BaseException] = []
        done = [0] * THREADS

        def work(number: int) -> None:
            while (rows := waiting.get()) is not None:
                try:
                    done[number] += call(rows)
                except BaseException as error:
                    failed.append(error)

        started = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in started:
            thread.start()
        for rows in chunks(batches, form):
            waiting.put(rows)
        for _ in started:
            waiting.put(None)
        for thread in started:
            thread.join()
        if failed:
            raise failed[0]
        yield counted(sum(done))

    return task


def dictionary(batches: Batches) -> Batches:
    """Sums by key in a plain dictionary."""
    sums: dict[int, list[int]] = {}
    for batch in batches:
        for key, value in zip(*(column.to_pylist() for column in batch.columns)):
            add(sums, key, value)
    yield from answered(sums)


def item_by_item(batches: Batches) -> Batches:
    """Do the same with a ``queue.Queue`` of single rows."""
    waiting: queue.Queue[Any] = queue.Queue(10_000)
    sums: dict[int, list[int]] = {}

    def work() -> None:
        while (row := waiting.get()) is not None:
            add(sums, *row)

    thread = threading.Thread(target=work)
    thread.start()
    for batch in batches:
        for row in zip(*(column.to_pylist() for column in batch.columns)):
            waiting.put(row)
    waiting.put(None)
    thread.join()
    yield from answered(sums)


def add(sums: dict[int, list[int]], key: int, value: int) -> None:
    """Count a row."""
    found = sums.get(key)
    if found is None:
        sums[key] = [1, value]
    else:
        found[0] += 1
        found[1] += value


def answered(sums: dict[int, list[int]]) -> Batches:
    """Partial results as a record batch."""
    counts, totals = zip(*sums.values()) if sums else ((), ())
    columns = {
        "key": pa.array(sums, pa.int64()),
        "n": pa.array(counts, pa.int64()),
        "total": pa.array(totals, pa.int64()),
    }
    yield pa.RecordBatch.from_pydict(columns)
