"""The streaming query that loads finished files on Spark, one batch for each announcement.

An announcement is a small file that names finished files and their formats. It is written under a hidden name and then
renamed, so the query never reads half of one. Spark's source reads only announcements, so a log may have any name.

1. After a crash the query repeats an uncommitted batch from its checkpoint. The database identifies
   files by content, so a repeated batch whose transaction was committed changes nothing.
2. The directory and the database decide which files to count, so the checkpoint may be deleted at any time.
3. A batch is loaded in a thread of Spark's gateway. The thread that announced it waits.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drainq.metrics.errors import JobFailed, lines_of
from drainq.metrics.log_files import Source, find
from drainq.metrics.spark_session import quiet_py4j

if TYPE_CHECKING:
    from pyspark import SparkContext

_KEPT_BATCHES = "10"  # batches that the checkpoint remembers


class FileStream:
    """The streaming query. A context manager that stops it.

    Args:
        context: Spark.
        directory: for announcements and the checkpoint.
        load: called with the files of a batch.
    """

    def __init__(self, context: SparkContext, directory: Path, load: Callable[[list[Source]], None]) -> None:
        from pyspark.sql import SparkSession

        self._context, self._load = context, load
        self._announced = directory / "announced"
        self._announced.mkdir(parents=True, exist_ok=True)
        self._busy = threading.Lock()
        self._stopped = False
        self._failed: BaseException | None = None
        session = SparkSession(context)
        session.conf.set("spark.sql.streaming.minBatchesToRetain", _KEPT_BATCHES)
        # Spark reads the path as a pattern.
        plain = re.sub(r"([\\*?\[\]{}])", r"\\\1", str(self._announced.absolute()))
        names = (
            session.readStream.format("text")
            .option("maxFilesPerTrigger", 1)
            .option("maxFileAge", "36500d")
            .option("cleanSource", "delete")
            .load(plain)
        )
        writer = names.writeStream.foreachBatch(self._each).option(
            "checkpointLocation", str((directory / "checkpoint").absolute())
        )
        self._query: Any = writer.queryName("drainq-follow").start()

    def take(self, sources: Sequence[Source]) -> None:
        """Announce files and wait until they are loaded. With no files, wait for the files announced before.

        Raises:
            BaseException: the error of ``load``. JobFailed: the query ended.
        """
        if sources:
            lines = [json.dumps([source.path, source.size, source.changed, source.format]) for source in sources]
            unfinished = self._announced / f".{time.time_ns()}"
            unfinished.write_text("".join(f"{line}\n" for line in lines))
            os.replace(unfinished, self._announced / f"{time.time_ns()}.json")
        try:
            with quiet_py4j():  # Py4J would log a traceback of Ctrl-C
                self._query.processAllAvailable()
        except Exception as error:
            if self._failed is not None:
                raise self._failed from None
            raise JobFailed(f"the streaming query ended: {lines_of(error)[0][:500]}") from error

    def __enter__(self) -> FileStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        with contextlib.suppress(Exception), quiet_py4j():  # a Java that has ended cannot be asked
            self._context.cancelAllJobs()
            self._query.stop()
        with self._busy:  # wait until no batch is being loaded
            pass

    def _each(self, batch: Any, number: int) -> None:
        with self._busy:
            try:
                if self._stopped:
                    raise InterruptedError("the following has ended")
                self._load([source for row in batch.collect() if (source := _announced(row[0]))])
            except BaseException as error:
                self._failed = error
                raise


def _announced(line: str) -> Source | None:
    """Return the file of an announcement, or None if it changed since. The next round finds it again."""
    path, size, changed, format = json.loads(line)
    try:
        source = find(0, path, format)
    except Exception:
        return None
    return source if (source.size, source.changed) == (size, changed) else None
