"""The archive that brings the installed drainq, with its dependencies, to executors that lack it.

Spark silently ignores a wheel that is passed as a Python file, and Python cannot load a native module from a zip file.
So two files are sent: an archive, which Spark unpacks on each executor, and a tiny package ``drainq``, which Spark puts
on the path. On import, the package puts the unpacked archive on the path, and the archived drainq replaces the package.

For a cluster that is used every day, an image or a virtual environment with drainq is better.
"""

from __future__ import annotations

import importlib.util
import re
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drainq.errors import DrainqError

UNPACKED = "drainq-shipped"
"""The folder into which an executor unpacks the archive, among Spark's files."""

_DOOR = f'''"""Stands for drainq until the archive that was shipped with it is on the path."""

import os
import sys

from pyspark import SparkFiles

_home = os.path.join(SparkFiles.getRootDirectory(), {UNPACKED!r})
if not os.path.isdir(os.path.join(_home, "drainq")):
    raise ImportError(f"drainq was shipped, but its archive is not unpacked in {{_home!r}}")
sys.path.insert(0, _home)
del sys.modules[__name__]
import drainq
'''


def ship(spark: Any) -> None:
    """Make drainq importable in this session's tasks, in the version installed here.

    This works on a running session, classic or Connect. The executors need the same Python version, processor and
    operating system as this machine.

    Args:
        spark: a ``SparkSession``.
    Raises:
        DrainqError: a dependency of drainq is not installed here.

    Example:
        >>> ship(spark)  # doctest: +SKIP
        >>> aggregate(df, make_handlers, schema="word string, n long")  # doctest: +SKIP
    """
    folder = Path(tempfile.mkdtemp(prefix="drainq-ship-"))
    packed, door = archive(folder / "drainq-shipped.zip"), folder / "drainq-door.zip"
    with zipfile.ZipFile(door, "w") as zipped:
        zipped.writestr("drainq/__init__.py", _DOOR)
    if hasattr(spark, "_sc"):
        spark.sparkContext.addArchive(f"{packed}#{UNPACKED}")
        spark.sparkContext.addPyFile(str(door))
    else:
        spark.addArtifacts(f"{packed}#{UNPACKED}", archive=True)
        spark.addArtifacts(str(door), pyfile=True)


def archive(path: str | Path) -> Path:
    """Write the installed drainq and its dependencies into a zip file.

    For ``spark-submit``, or a session that is not started yet, set ``spark.archives`` to ``FILE#drainq`` and
    ``spark.executorEnv.PYTHONPATH`` to ``./drainq``.

    Args:
        path: the file to write.
    Returns:
        The path.
    Raises:
        DrainqError: a dependency of drainq is not installed here.
    """
    packed = Path(path)
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as zipped:
        for module in ("drainq", *_dependencies()):
            for file, name in _files(module):
                zipped.write(file, name)
    return packed


def _dependencies() -> list[str]:
    """Return the modules that drainq needs on every platform, without extras."""
    from importlib import metadata  # slow to import, and rarely needed

    needed = []
    try:
        requirements = metadata.requires("drainq") or ()
    except metadata.PackageNotFoundError as error:
        raise DrainqError("ship() sends the drainq that is installed, and none is: pip install drainq") from error
    for requirement in requirements:
        if ";" not in requirement:
            name = re.match(r"[\w.-]+", requirement)
            assert name is not None, requirement
            needed.append(name[0].replace("-", "_").lower())
    return needed


def _files(module: str) -> Iterator[tuple[Path, str]]:
    """Yield the files of a top-level module, with their names in the archive."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise DrainqError(f"drainq needs {module}, which is not installed here: pip install {module}")
    origin = Path(spec.origin)
    if not spec.submodule_search_locations:
        yield origin, origin.name
        return
    for file in sorted(origin.parent.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            yield file, str(Path(module) / file.relative_to(origin.parent))
