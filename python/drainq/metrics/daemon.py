"""The process that Spark forks Python workers from, with everything imported that a task needs.

Spark's own daemon imports after the fork, in each worker, and takes PySpark from a zip file without compiled modules.
This one imports before, and takes PySpark from where it is installed.

1. No thread runs when a worker is forked: those of Arrow's allocator and of numpy's algebra are turned off.
2. PySpark is taken from its directory only if the zip file lies in that directory: then both are one version.

Spark starts it as ``python -m drainq.metrics.daemon``, as the setting ``spark.python.daemon.module`` says.
"""

from __future__ import annotations

import gc
import importlib.machinery
import os
import sys


def without_zips(path: list[str]) -> list[str]:
    """The path of modules without PySpark's zip files, if PySpark is installed where they are."""
    plain = [entry for entry in path if not entry.endswith((".zip", ".egg"))]
    found = importlib.machinery.PathFinder.find_spec("pyspark", plain)
    py4j = importlib.machinery.PathFinder.find_spec("py4j", plain)
    if found is None or found.origin is None or py4j is None:
        return path
    home = os.path.join(os.path.realpath(os.path.dirname(found.origin)), "")
    return [entry for entry in path if entry in plain or not os.path.realpath(entry).startswith(home)]


def main() -> None:
    """Import, then be Spark's daemon."""
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.path[:] = without_zips(sys.path)
    import pyspark.worker  # noqa: F401
    from pyspark.daemon import manager

    import drainq.metrics.engine  # noqa: F401

    gc.collect()
    gc.freeze()  # what is here is not looked at again in each worker, which would copy its memory
    manager()


if __name__ == "__main__":
    main()
