"""Logs at URLs that Spark's own file systems read: ``s3a://``, ``hdfs://``, ``abfss://``, ``file://``.

Spark's text source splits the logs, undoes compression by the file's name, and hands the lines to the tasks as Arrow
batches. So neither the driver's disk nor the executors' holds a log.

1. A log has the same digest at a URL as on a disk. The text source leaves out a byte order mark and the last line end;
   the size shows whether that end was there. A compressed log counts as if it ended with a line end.
2. A line is cut only at ``\\n``, as on a disk.
"""

from __future__ import annotations

import hashlib
import itertools
import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drainq.metrics.arrays import integers
from drainq.metrics.blocks import Block, Task
from drainq.metrics.errors import FileChanged, UserError, lines_of
from drainq.metrics.log_files import FIRST_BYTES, Source, format_of
from drainq.metrics.open_log import BOM, check_text, is_compressed
from drainq.sql.url import shown, without_password

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

_ONE_TASK_A_LOG = 1 << 50  # bytes: a split that no log fills


@dataclass(frozen=True)
class RemoteSource(Source):
    """A log at a URL; ``changed`` in milliseconds. ``has_bom``: it has a byte order mark. ``files`` finds the log."""

    has_bom: bool = False
    files: Any = field(default=None, compare=False)

    def again(self) -> Source:
        found: Source = self.files.find(self.path, self.format)
        return found


@dataclass(frozen=True)
class RemoteLog(Block):
    """A whole log at a URL, which Spark splits. ``has_bom``: as in :class:`RemoteSource`."""

    has_bom: bool = False


@dataclass(frozen=True)
class _Lines:
    """A ``Part``: the lines of one split, as they arrive."""

    source: int
    begin: int
    format: str
    arriving: Iterator[pa.Array]

    def pieces(self) -> Iterator[bytes]:
        return (_joined(lines) + b"\n" for lines in self.arriving)


def remote_tasks(sources: Sequence[Source]) -> list[Task]:
    """Return a task for each nonempty log at a URL."""
    return [
        (RemoteLog(s.number, s.path, 0, None if s.compressed else s.size, s.format, s.has_bom),)
        for s in sources
        if isinstance(s, RemoteSource) and s.size
    ]


class RemoteFiles:
    """Finds logs by Spark's file systems, on the driver."""

    def __init__(self, context: SparkContext) -> None:
        self._jvm: Any = context._jvm
        self._configuration = context._jsc.hadoopConfiguration()

    def matching(self, url: str, format: str | None) -> list[RemoteSource]:
        """Find the logs that a URL names; ``*``, ``?``, ``[...]`` and ``{a,b}`` in it match names.

        Raises:
            UserError: no file matches, or a matching file is not a readable log.
        """
        try:
            path = self._jvm.org.apache.hadoop.fs.Path(url)
            found = path.getFileSystem(self._configuration).globStatus(path) or ()
        except Exception as error:  # Py4J raises whatever Java did
            raise _unreadable(url, error) from error
        if not found:
            raise UserError(f"there is no log {shown(url)!r}; check the name")
        paths = [urlsplit(status.getPath().toUri().toString()) for status in found]  # Java writes file:/x
        return [self.find(f"{path.scheme}://{path.netloc}{path.path}", format) for path in paths]

    def find(self, url: str, format: str | None) -> RemoteSource:
        """Read the size, the time and the kind of one log, as for a log on a disk."""
        try:
            path = self._jvm.org.apache.hadoop.fs.Path(self._jvm.java.net.URI(url))
            system = path.getFileSystem(self._configuration)
            status = system.getFileStatus(path)
            codec = self._jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(self._configuration).getCodec(path)
            stream = system.open(path)
            try:
                stream = codec.createInputStream(stream) if codec else stream
                head = bytes(stream.readNBytes(FIRST_BYTES))
            finally:
                stream.close()
        except Exception as error:
            raise _unreadable(url, error) from error
        if is_compressed(head):
            raise UserError(
                f"{shown(url)!r} is compressed, and Spark does not see that by its name; "
                "name it .gz or .bz2, as it is compressed"
            )
        check_text(url, head)
        format = format_of(url, head) if format is None else format
        size = status.getLen() if head else 0
        return RemoteSource(
            0,
            url,
            codec is not None,
            size,
            status.getModificationTime(),
            format,
            has_bom=head.startswith(BOM),
            files=self,
        )


def _unreadable(url: str, error: Exception) -> UserError:
    java = getattr(error, "java_exception", None)
    reason = without_password(java.toString() if java else lines_of(error)[0])
    return UserError(f"cannot read the log {shown(url)!r}: {reason}")


def read(context: SparkContext, logs: Sequence[RemoteLog], run: Callable[[Iterator[Task]], Iterator[Any]]) -> list[Any]:
    """Run a function over the lines of logs in Spark's tasks, one task for each split. Return the results."""
    sources = {_key(log.path): log for log in logs}
    return _results(_lines_of(context, logs), lambda batches: run(_parts(batches, sources)))


def digests(context: SparkContext, logs: Sequence[RemoteLog]) -> list[tuple[str, str]]:
    """Compute the digest of each log, in one task for each. Return URLs and digests.

    Raises:
        FileChanged: Spark read fewer or more bytes of a log than it has.
    """
    sources = {_key(log.path): log for log in logs}
    results = _results(_lines_of(context, logs, one_task=True), lambda batches: _digests(batches, sources))
    found: dict[str, Any] = {**{log.path: None for log in logs}, **dict(results)}
    for log in logs:
        if found[log.path] is None:
            raise FileChanged(
                f"{shown(log.path)!r} changed while it was read, or is left out by Spark, as names that begin with _ "
                "or . are; nothing was loaded"
            )
    return list(found.items())


def _results(lines: DataFrame, run: Callable[[Iterator[pa.RecordBatch]], Iterator[Any]]) -> list[Any]:
    def pickled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for result in run(batches):
            yield pa.record_batch([pa.array([pickle.dumps(result)], pa.binary())], names=["result"])

    return [pickle.loads(row.result) for row in lines.mapInArrow(pickled, "result binary").collect()]


def _lines_of(context: SparkContext, logs: Sequence[RemoteLog], *, one_task: bool = False) -> DataFrame:
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import col

    session = SparkSession(context).newSession()
    if one_task:
        session.conf.set("spark.sql.files.maxPartitionBytes", str(_ONE_TASK_A_LOG))
        session.conf.set("spark.sql.files.openCostInBytes", str(_ONE_TASK_A_LOG))
    paths = [re.sub(r"([\\*?\[\]{}])", r"\\\1", _key(log.path)) for log in logs]
    lines = session.read.format("text").option("lineSep", "\n").load(paths)
    place = col("_metadata.file_path").alias("path"), col("_metadata.file_block_start").alias("begin")
    return lines.select(col("value").cast("binary").alias("value"), *place)


def _splits(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[tuple[str, int], Iterator[pa.Array]]]:
    """Yield each split's log and first byte, and its lines as they arrive."""

    def slices() -> Iterator[tuple[tuple[str, int], pa.Array]]:
        for batch in batches:
            paths, begins = batch["path"].dictionary_encode(), integers(batch["begin"])
            changes = np.diff(integers(paths.indices)) | np.diff(begins)
            for low, high in pairwise([0, *(np.flatnonzero(changes) + 1).tolist(), len(begins)]):
                if low < high:
                    yield (_key(paths[low].as_py()), int(begins[low])), batch["value"].slice(low, high - low)

    for split, arriving in groupby(slices(), key=lambda one: one[0]):
        yield split, (lines for _, lines in arriving)


def _parts(batches: Iterator[pa.RecordBatch], logs: Mapping[str, RemoteLog]) -> Iterator[Task]:
    for (path, begin), arriving in _splits(batches):
        yield (_Lines(logs[path].source, begin, logs[path].format, arriving),)


def _digests(batches: Iterator[pa.RecordBatch], logs: Mapping[str, RemoteLog]) -> Iterator[tuple[str, str | None]]:
    """Yield the URL of each log, with its digest, or with None if Spark read more or fewer bytes than the log has."""
    for (path, _), arriving in _splits(batches):
        log, separator = logs[path], b""
        found, length = hashlib.sha256(), 0
        for text in itertools.chain([BOM] if log.has_bom else [], map(_joined, arriving)):
            found.update(separator + text)
            length += len(separator + text)
            separator = b"" if text is BOM else b"\n"
        if log.end is None or length < log.end:  # the last line's end
            found.update(b"\n")
            length += 1
        yield log.path, found.hexdigest() if log.end in (None, length) else None


def _joined(lines: pa.Array) -> bytes:
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    return bytes(pc.binary_join(whole, b"\n")[0].as_py())


def _key(url: str) -> str:
    """Return a log's path as Hadoop spells it. Spark writes ``file:/x`` where Hadoop writes ``file:///x``."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{unquote(parts.path)}"
