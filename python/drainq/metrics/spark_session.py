"""Starts Spark for the job, silently, in a thread. With a local master, only this machine can connect to Spark.

1. The workers run the Python of this process, or on a cluster the one that ``PYSPARK_PYTHON`` or the setting
   ``spark.pyspark.python`` names. Spark's own default is ``python3`` from the PATH.
2. Local mode retries a task only if the master names the number of tries (``local[2,4]``).
3. Java's output goes to a file.
4. Java holds no rows, because tasks read logs and write files themselves. So its heap does not grow with the logs.
5. At its end Python waits until Spark has stopped, for 30 seconds at most.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import logging
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drainq.metrics.errors import UserError, lines_of
from drainq.spark.java import java_home, private_directory
from drainq.threads import start_thread

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xshare:auto"


def archive_place(java_home: str) -> Path:
    """Return the path of the archive of Java classes for this PySpark and this Java. The archive may not exist.

    Java spends most of Spark's start on reading and checking some ten thousand classes. An application class-data
    archive (AppCDS) keeps them in Java's memory format. :mod:`drainq.metrics.make_archive` makes one. Its name depends
    on the versions of PySpark and Java, so another version starts without an archive. If Java cannot use an archive,
    it silently ignores it.
    """
    import pyspark

    release = Path(java_home, "release")
    java = release.read_bytes() if release.is_file() else java_home.encode()
    name = hashlib.sha256(java + pyspark.__file__.encode()).hexdigest()[:12]
    return private_directory(os.environ) / f"spark-{pyspark.__version__}-{name}.jsa"


def archive_options(java_home: str) -> str:
    """Return Java's options for the archive, or "" if there is none."""
    archive = archive_place(java_home)
    return f"-XX:SharedArchiveFile={archive} {SILENT}" if archive.is_file() else ""


DEFAULT_MASTER = "local[2,4]"  # two cores, four tries for each task
DEFAULT_HEAP = "512m"
LEAST_HEAP = 471_859_200  # bytes; Spark refuses to start with less
# Java does no work per line, so its fast compiler and its simplest collector are enough.
_JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_SETTINGS = {
    "spark.app.name": "drainq metrics",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.python.daemon.module": "drainq.metrics.daemon",
}
_LONGEST_START = 30.0
"""Seconds for which the end of a process waits for Spark, because a Java that starts may never answer. Java ends with
the process.
"""
_stopping: list[threading.Thread] = []


def parse_heap(text: str) -> str:
    """Check a size of Java's heap, such as ``512m`` or ``2g``.

    Raises:
        ValueError: the text is no size, or Spark does not start with so little.
    """
    found = re.fullmatch(r"([0-9]{1,6})([mg])", text.lower())
    if not found or int(found[1]) << (20 if found[2] == "m" else 30) < LEAST_HEAP:
        raise ValueError(f"needs a size from 450m on, such as 512m or 2g, got {text!r}")
    return text.lower()


def is_local(master: str) -> bool:
    """Return whether a master runs the tasks on this machine, in the driver's process."""
    return master == "local" or master.startswith("local[")


def settings_for(
    master: str,
    directory: Path,
    heap: str = DEFAULT_HEAP,
    java_options: str = "",
    conf: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return Spark's settings. ``conf``: the user's settings, which override these."""
    settings = {**_SETTINGS, "spark.master": master, "spark.sql.warehouse.dir": str(directory / "warehouse")}
    if master.startswith("local"):
        settings |= _LOCAL_SETTINGS
        settings["spark.driver.memory"] = heap
        settings["spark.driver.extraJavaOptions"] = f"{_JAVA_OPTIONS} {java_options}".strip()
    return settings | dict(conf or {})


class Launch:
    """Starts Spark in a thread. A context manager that stops it.

    Args:
        settings: Spark's.
        log: the file for Java's output.
        use_archive: start Java with the archive of classes, if there is one.
    """

    def __init__(self, settings: Mapping[str, str], log: Path, *, use_archive: bool = True) -> None:
        self._settings, self._log, self._use_archive = dict(settings), log, use_archive
        self._context: Future[SparkContext] = Future()
        self._is_stopping = False
        start_thread(self._run, name="drainq-spark-start")

    def context(self) -> SparkContext:
        """Wait until Spark has started.

        Raises:
            UserError: PySpark is not installed, or Spark does not start. The message names the log.
        """
        return self._context.result()

    def stop(self) -> None:
        """Stop Spark in a thread. Another call does nothing."""
        if not self._is_stopping:
            self._is_stopping = True
            _stopping.append(start_thread(self._stop, name="drainq-spark-stop"))

    def __enter__(self) -> Launch:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            self._context.set_result(self._start())
        except BaseException as error:
            self._context.set_exception(error)

    def _start(self) -> SparkContext:
        wait_until_stopped()
        try:
            from pyspark import SparkConf, SparkContext
            from pyspark.java_gateway import launch_gateway
        except ImportError as error:
            raise UserError("Spark is not installed: pip install 'drainq[metrics]', or use --engine local") from error
        master = self._settings["spark.master"]
        theirs = self._settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
        os.environ["PYSPARK_PYTHON"] = (not is_local(master) and theirs) or sys.executable
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        if master.startswith("local"):
            os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        home = os.environ["JAVA_HOME"] = java_home()
        name = "spark.driver.extraJavaOptions"
        if self._use_archive and name in self._settings:
            self._settings[name] += f" {archive_options(home)}"
        conf = SparkConf(loadDefaults=False).setAll(list(self._settings.items()))
        with warnings.catch_warnings(), quiet_py4j(), open(self._log, "wb") as log:
            warnings.simplefilter("ignore")
            try:
                launched: Any = launch_gateway
                gateway = SparkContext._gateway or launched(conf, {"stdout": log, "stderr": log})
                context = SparkContext(conf=conf, gateway=gateway)
            except Exception as error:  # Py4J and PySpark raise whatever Java did
                raise UserError(
                    f"Spark does not start with --master {master!r}: {lines_of(error)[0]}; see {str(self._log)!r}"
                ) from error
        server: Any = getattr(context, "_accumulatorServer", None)
        if server is not None:  # the server would print a traceback when Java ends before Python
            server.handle_error = lambda request, address: None
        return context

    def _stop(self) -> None:
        with contextlib.suppress(BaseException):  # a Java that Ctrl-C ended cannot be asked to stop
            with quiet_py4j(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about a Java that is ending by itself
                self._context.result().stop()


@contextlib.contextmanager
def open_session(master: str, log: Path, *, heap: str = DEFAULT_HEAP) -> Iterator[SparkSession]:
    """Start Spark for DataFrames with the job's settings. Stop it after the block, and wait until it has stopped."""
    from pyspark.sql import SparkSession

    settings = settings_for(master, log.parent, heap)
    settings.pop("spark.python.daemon.module", None)
    with Launch(settings, log, use_archive=False) as launch:
        yield SparkSession(launch.context())
    wait_until_stopped()


def wait_until_stopped(longest: float | None = None) -> None:
    """Wait for each Spark that is being stopped, because a process can have only one. ``longest``: seconds for each."""
    while _stopping:
        _stopping.pop().join(longest)


atexit.register(wait_until_stopped, _LONGEST_START)


@contextlib.contextmanager
def quiet_py4j() -> Iterator[None]:
    """Drop Py4J's log records in the block. Py4J raises its errors too, and logs some of them at the root logger."""
    loggers: list[Any] = [logging.getLogger(name) for name in (None, "py4j", "py4j.java_gateway", "py4j.clientserver")]

    def not_py4j(record: logging.LogRecord) -> bool:
        return "py4j" not in Path(record.pathname).parts

    for logger in loggers:
        logger.addFilter(not_py4j)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(not_py4j)
