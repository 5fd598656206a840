"""``python -m drainq.metrics.make_archive``: makes the archive of Java classes for :mod:`drainq.metrics.spark_session`.

It takes about 20 seconds and 70 MB in this user's cache. The archive is written under another name and renamed once it
is complete, because a Java process that maps half an archive crashes.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from drainq.errors import DrainqError
from drainq.metrics.job import run
from drainq.metrics.spark_session import DEFAULT_MASTER, SILENT, Launch, archive_place, settings_for, wait_until_stopped
from drainq.spark.java import java_home


def make() -> Path:
    """Run the job once on one line, with a Java that records the classes it loads.

    Returns:
        The archive.
    Raises:
        DrainqError: Java wrote no archive, or the archive's path contains a space.
    """
    archive = archive_place(java_home())
    if " " in str(archive):
        raise DrainqError(f"Java's options cannot name a file with a space: {str(archive)!r}; set XDG_CACHE_HOME")
    with tempfile.TemporaryDirectory(prefix="drainq-archive-") as scratch:
        directory = Path(scratch)
        log = directory / "access.log"
        log.write_text('::1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 17 "-" "curl/8" 0.042\n')
        unfinished = archive.with_suffix(f".{os.getpid()}")
        settings = settings_for(
            DEFAULT_MASTER, directory, java_options=f"-XX:ArchiveClassesAtExit={unfinished} {SILENT}"
        )
        with Launch(settings, directory / "spark.log", use_archive=False) as launch:
            run([str(log)], out=directory, context=launch.context())
        wait_until_stopped()
        _end_java()
        if not unfinished.is_file():
            raise DrainqError(f"Java wrote no archive: {(directory / 'spark.log').read_text()[-300:]}")
        os.replace(unfinished, archive)
    return archive


def _end_java() -> None:
    """End the Java of this process and wait for its end, at which Java writes the archive."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


def main() -> int:
    """Make the archive unless it exists. Return 0, or 2 after one line on stderr."""
    try:
        archive = archive_place(java_home())
        if not archive.is_file():
            print("making an archive of Java's classes (20 seconds, 70 MB), so that Spark starts in half the time")
            archive = make()
        print(f"{archive} ({archive.stat().st_size / 1e6:.0f} MB)")
    except DrainqError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
