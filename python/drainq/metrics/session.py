"""A Spark session that needs no set-up, prints nothing on the terminal, and connects to this machine alone.

1. The workers run this very Python: ``PYSPARK_PYTHON`` would otherwise be whatever ``python3`` is on the PATH.
2. Without ``spark.task.maxFailures`` in the master (``local[2,4]``) local mode never retries a task.
3. Spark's own output goes to a file. Only its start is redirected; this process's stderr comes back.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drainq.metrics.errors import UserError
from drainq.spark.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[2,4]"  # two cores, four tries for each task
SHORT = 2_000_000_000  # bytes of logs up to which the job ends before Java's second compiler has earned its keep
_SHORT_JOB = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_SETTINGS = {
    "spark.app.name": "drainq metrics",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.maxResultSize": "0",  # merged rows come to the driver; there is no use in a limit below its memory
    "spark.driver.memory": "1g",
    "spark.sql.adaptive.enabled": "false",  # one small shuffle: planning it again costs more than it can gain
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.files.maxPartitionBytes": "64m",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@contextlib.contextmanager
def open_session(master: str, log: Path, *, size: int = 0) -> Iterator[SparkSession]:
    """Start Spark, and stop it after the block.

    Args:
        master: Spark's master, such as ``local[2,4]`` or ``spark://host:7077``.
        log: the file that takes what Spark prints.
        size: bytes of logs to read; a short job is done sooner by a Java that compiles less.
    Raises:
        UserError: PySpark is not installed, or Spark does not start; the message names the log.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise UserError("the job runs on Spark: pip install 'drainq[metrics]'") from error
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    local = master.startswith("local")
    if local:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["JAVA_HOME"] = java_home()
    builder = SparkSession.builder.master(master)
    settings = {**_SETTINGS, "spark.sql.warehouse.dir": str(log.parent / "warehouse")}
    if size <= SHORT:
        settings["spark.driver.extraJavaOptions"] = _SHORT_JOB
    for name, value in settings.items():
        if local or not name.startswith("spark.driver."):
            builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with _stderr_to(log):
                session = builder.getOrCreate()
        except Exception as error:  # Py4J and PySpark raise whatever Java did
            raise UserError(
                f"Spark does not start with --master {master!r}: {_first_line(error)}; see {str(log)!r}"
            ) from error
        try:
            with _quiet_py4j():
                yield session
        except BaseException:
            with _quiet_py4j(), contextlib.suppress(Exception):  # a Java that Ctrl-C ended cannot be asked to stop
                session.stop()
            raise
        session.stop()


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


@contextlib.contextmanager
def _quiet_py4j() -> Iterator[None]:
    """Keep Py4J's own records out of the log: each of its errors is raised too, and some are logged at the root."""
    loggers = [logging.getLogger(name) for name in (None, "py4j", "py4j.java_gateway", "py4j.clientserver")]

    def not_py4j(record: logging.LogRecord) -> bool:
        return "py4j" not in Path(record.pathname).parts

    for logger in loggers:
        logger.addFilter(not_py4j)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(not_py4j)


@contextlib.contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """What is started in the block inherits the file as its stderr."""
    sys.stderr.flush()
    kept = os.dup(2)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.dup2(file, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(file)


def tasks_done(session: Any) -> tuple[int, int]:
    """How many tasks of the running stages are done, and how many there are."""
    tracker = session.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)
