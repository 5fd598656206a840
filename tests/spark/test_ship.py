"""Executors that have everything but drainq get it from the driver."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")

from drainq.errors import DrainqError
from drainq.spark import VersionMismatch, archive, ship
from drainq.spark.java import java_home
from drainq.spark.ship_package import _dependencies, _files
from drainq.spark.version_check import check_version, installed

JOB = """
import os, sys
from pyspark.sql import SparkSession
from drainq.spark import aggregate, ship, sink

class Count:
    n = 0
    def consume(self, batch):
        self.n += len(batch)
    def result(self):
        return [(self.n,)]

class Writer:
    def write(self, batch):
        import drainq, msgspec, cronsim
        assert "drainq-shipped" in drainq.__file__ and "drainq-shipped" in msgspec.__file__, drainq.__file__

def has_drainq(rows):
    import importlib.util
    yield importlib.util.find_spec("drainq") is not None

spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
         .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate())
assert spark.sparkContext.parallelize([1], 1).mapPartitions(has_drainq).collect() == [False]
ship(spark)
df = spark.range(100)
counted = aggregate(df, lambda info: {tuple: Count()}, schema="n long", merge={"n": "sum"}).collect()
assert [row.n for row in counted] == [100], counted
assert sink(df, lambda info: Writer()).rows == 100
print("shipped")
"""


def python_without_drainq(folder: Path) -> Path:
    """Return a Python that sees the packages installed here, but not drainq."""
    import pyspark

    installed_here, site = Path(pyspark.__file__).parents[1], folder / "site"
    site.mkdir()
    for entry in installed_here.iterdir():
        if "drainq" not in entry.name and entry.suffix != ".pth":
            (site / entry.name).symlink_to(entry)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{site}" exec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    return python


@pytest.mark.system
@pytest.mark.usefixtures("own_limit")
@pytest.mark.skipif(sys.platform == "win32", reason="the executors' Python is a shell script")
def test_tasks_import_the_drivers_drainq_after_ship(tmp_path):
    try:
        java = java_home()
    except DrainqError as missing:
        pytest.skip(str(missing))
    environment = {
        **os.environ,
        "JAVA_HOME": java,
        "PYSPARK_PYTHON": str(python_without_drainq(tmp_path)),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "-c", JOB], env=environment, capture_output=True, text=True, cwd=tmp_path, timeout=540
    )
    assert done.stdout.endswith("shipped\n"), done.stderr[-3000:]


def test_the_archive_has_the_package_its_native_part_and_what_it_depends_on(tmp_path):
    with zipfile.ZipFile(tmp_path / "drainq.zip", "w") as former:
        former.writestr("drainq/gone.py", "")
    names = zipfile.ZipFile(archive(tmp_path / "drainq.zip")).namelist()
    assert "drainq/gone.py" not in names
    assert "drainq/__init__.py" in names and "msgspec/__init__.py" in names and "cronsim/__init__.py" in names
    assert any(name.startswith("drainq/_native") and name.endswith((".so", ".pyd")) for name in names)
    assert not [name for name in names if "__pycache__" in name or "pyspark" in name]


class Connect:
    """A session of Spark Connect has no context; it takes artifacts."""

    def __init__(self):
        self.added = []

    def addArtifacts(self, path, **kind):
        self.added.append((Path(path).name, kind))


def test_a_connect_session_gets_the_same_files_as_artifacts():
    session = Connect()
    ship(session)
    assert session.added == [
        ("drainq-shipped.zip#drainq-shipped", {"archive": True}),
        ("drainq-door.zip", {"pyfile": True}),
    ]


def test_a_classic_session_gets_an_archive_under_its_name_and_a_python_file(tmp_path, monkeypatch):
    added = []
    context = SimpleNamespace(addArchive=added.append, addPyFile=added.append)
    ship(SimpleNamespace(_sc=context, sparkContext=context))
    assert [Path(path).name for path in added] == ["drainq-shipped.zip#drainq-shipped", "drainq-door.zip"]
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "bare_folder").mkdir()
    monkeypatch.setattr("importlib.metadata.requires", lambda _: ["Typing-Extensions>=4", "msgspec", "x; extra == 'y'"])
    assert _dependencies() == ["typing_extensions", "msgspec"]
    with pytest.raises(DrainqError, match="drainq needs bare_folder, which is not installed here: pip install bare"):
        list(_files("bare_folder"))


def test_another_version_in_a_task_is_an_error_that_names_both():
    check_version(installed)
    with pytest.raises(VersionMismatch, match=f"the driver has drainq 0.0.1, this executor has {installed}: .*ship"):
        check_version("0.0.1")
