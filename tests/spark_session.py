"""The one Spark session of a test run, and logs and tasks made for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from drainq.errors import DrainqError

T = TypeVar("T")


def sessions(directory: Path) -> Iterator[Any]:
    """Start Spark as the command does: two cores, four tries per task, this very Python; stop it at the end."""
    for package in ("pyspark", "pyarrow", "pandas"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install 'drainq[metrics]'")
    from drainq.metrics.spark_session import DEFAULT_MASTER, open_session
    from drainq.spark.java import java_home

    try:
        java_home()
    except DrainqError as missing:
        pytest.skip(str(missing))
    with open_session(DEFAULT_MASTER, directory / "spark.log", heap="1g") as session:
        yield session


NO_PYTHON = "Python worker failed to connect back"
TRIES = 4


def once_python_is_there(act: Callable[[], T]) -> T:
    """Return what ``act`` returns. Try up to ``TRIES`` times if Spark did not wait for its Python process to start.

    PySpark gives the process of a stream's reader 10 seconds to start, which may be too short on a busy machine.
    """
    for _ in range(TRIES - 1):
        try:
            return act()
        except Exception as error:
            if NO_PYTHON not in str(error):
                raise
    return act()


def by_value(module: str) -> None:
    """Let Spark's workers get this test module's functions by value, because workers cannot import the module."""
    from pyspark.cloudpickle import register_pickle_by_value

    register_pickle_by_value(sys.modules[module])
