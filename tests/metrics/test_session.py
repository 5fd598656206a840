"""The start of Spark and its workers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from drainq.metrics.daemon import without_zips
from drainq.metrics.errors import lines_of
from drainq.metrics.spark_session import archive_options, archive_place, parse_heap, settings_for


@pytest.mark.parametrize("size", ["512m", "450m", "2g", "1G"])
def test_a_heap_is_a_size_of_java(size, tmp_path):
    assert settings_for("local[2]", tmp_path, parse_heap(size))["spark.driver.memory"] == size.lower()


@pytest.mark.parametrize("size", ["", "512", "1t", "-1g", "449m", "0g"])
def test_a_heap_that_spark_would_refuse_is_refused(size):
    with pytest.raises(ValueError, match="needs a size from 450m on, such as 512m or 2g, got"):
        parse_heap(size)


def test_a_cluster_keeps_its_own_settings(tmp_path):
    assert not [name for name in settings_for("spark://host:7077", tmp_path) if name.startswith("spark.driver.")]


def test_zips_beside_the_installed_pyspark_are_left_out():
    pyspark = pytest.importorskip("pyspark")
    home = pyspark.__path__[0]
    zips = [f"{home}/python/lib/pyspark.zip", f"{home}/python/lib/py4j-0.10-src.zip"]
    assert without_zips([*zips, "/elsewhere/mine.zip", *sys.path]) == ["/elsewhere/mine.zip", *sys.path]
    assert without_zips([*zips, "/nothing"]) == [*zips, "/nothing"]


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_no_thread_runs_when_a_worker_is_forked():
    pytest.importorskip("pyspark")
    code = (
        "import os, sys, types; daemon = types.ModuleType('pyspark.daemon'); sys.modules[daemon.__name__] = daemon;"
        "daemon.manager = lambda: print(len(os.listdir('/proc/self/task')));"
        "from drainq.metrics.daemon import main; main()"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (answer.stdout, answer.stderr) == ("1\n", "")


def test_without_an_archive_java_gets_no_option(tmp_path, monkeypatch):
    pytest.importorskip("pyspark")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert archive_options("/no/java") == ""
    archive_place("/no/java").touch()
    assert archive_options("/no/java").startswith(f"-XX:SharedArchiveFile={tmp_path}/drainq/spark-")
    assert archive_place("/other/java") != archive_place("/no/java")


def test_an_error_whose_text_only_java_knew_is_named_by_its_class():
    class OfJava(Exception):
        def __str__(self):
            raise ConnectionRefusedError("Java has ended")

    assert lines_of(OfJava()) == ["OfJava"] == lines_of(OfJava(""))
    assert lines_of(ValueError("\n one \n two")) == ["one", "two"]
    assert lines_of(ValueError("")) == ["ValueError"]
