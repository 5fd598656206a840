"""The process from which Spark forks Python workers, with every module a task needs already imported.

Spark's own daemon imports after the fork, in each worker, and takes PySpark from a zip file without compiled modules.
This daemon imports before the fork, and takes the installed PySpark.

1. No thread runs during a fork: the threads of Arrow's allocator and of numpy's algebra are turned off.
2. PySpark is taken from its directory only if the zip file lies there too, so both have one version.

Spark starts it as ``python -m drainq.metrics.daemon``, by the setting ``spark.python.daemon.module``.
"""

from __future__ import annotations

import gc
import importlib.machinery
import os
import sys


def without_zips(path: list[str]) -> list[str]:
    """Return the module path without PySpark's zip files, if PySpark is installed in their directory."""
    plain = [entry for entry in path if not entry.endswith((".zip", ".egg"))]
    found = importlib.machinery.PathFinder.find_spec("pyspark", plain)
    py4j = importlib.machinery.PathFinder.find_spec("py4j", plain)
    if found is None or found.origin is None or py4j is None:
        return path
    home = os.path.join(os.path.realpath(os.path.dirname(found.origin)), "")
    return [entry for entry in path if entry in plain or not os.path.realpath(entry).startswith(home)]


def main() -> None:
    """Import what tasks need, then run Spark's daemon."""
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.path[:] = without_zips(sys.path)
    import pyspark.worker  # noqa: F401
    from pyspark.daemon import manager

    import drainq.metrics.engine  # noqa: F401

    gc.collect()
    gc.freeze()  # else the garbage collector of each worker would visit these objects, and so copy their memory
    manager()


if __name__ == "__main__":
    main()
