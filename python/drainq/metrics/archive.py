"""An archive of Java classes, so that Spark starts in half the time.

Java spends most of Spark's start on reading and checking some ten thousand classes. An application class-data archive
(AppCDS) keeps them as Java holds them in memory; :mod:`drainq.metrics.make_archive` makes one.

1. The name has the versions of PySpark and of Java, so another version finds no archive and starts without.
2. A Java that cannot use an archive ignores it in silence.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from drainq.spark.java import private_directory

SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xshare:auto"


def place(java_home: str) -> Path:
    """Where the archive for this PySpark and this Java is, or would be."""
    import pyspark

    release = Path(java_home, "release")
    java = release.read_bytes() if release.is_file() else java_home.encode()
    name = hashlib.sha256(java + pyspark.__file__.encode()).hexdigest()[:12]
    return private_directory(os.environ) / f"spark-{pyspark.__version__}-{name}.jsa"


def options(java_home: str) -> str:
    """Java's options to start with the archive; empty without one."""
    archive = place(java_home)
    return f"-XX:SharedArchiveFile={archive} {SILENT}" if archive.is_file() else ""
