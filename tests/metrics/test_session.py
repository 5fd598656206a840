"""The start of Spark and its workers."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from drainq.metrics import spark_session
from drainq.metrics.daemon import without_zips
from drainq.metrics.errors import UserError, lines_of
from drainq.metrics.spark_session import (
    Launch,
    archive_options,
    archive_place,
    open_session,
    parse_heap,
    quiet_py4j,
    settings_for,
    wait_until_stopped,
)
from tests.patience import Call


@pytest.mark.parametrize("size", ["512m", "450m", "2g", "1G"])
def test_a_heap_is_a_size_of_java(size, tmp_path):
    assert settings_for("local[2]", tmp_path, parse_heap(size))["spark.driver.memory"] == size.lower()


@pytest.mark.parametrize("size", ["", "512", "1t", "-1g", "449m", "0g"])
def test_a_heap_that_spark_would_refuse_is_refused(size):
    with pytest.raises(ValueError, match="needs a size from 450m on, such as 512m or 2g, got"):
        parse_heap(size)


def test_spark_is_set_up_as_the_job_needs_it_and_a_cluster_keeps_its_own_driver(tmp_path):
    of_all = {
        "spark.app.name": "drainq metrics", "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000", "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": f"{tmp_path}/warehouse",
        "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
    }  # fmt: skip
    assert settings_for("spark://h", tmp_path) == {**of_all, "spark.master": "spark://h"}
    assert settings_for("local[3]", tmp_path, java_options="-D") == {
        **of_all, "spark.master": "local[3]", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1", "spark.python.daemon.module": "drainq.metrics.daemon",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -D",
    }  # fmt: skip


def test_settings_of_the_user_come_last(tmp_path):
    theirs = {"spark.ui.enabled": "true", "spark.hadoop.fs.s3a.endpoint": "http://h"}
    assert settings_for("spark://h", tmp_path, conf=theirs) == {**settings_for("spark://h", tmp_path), **theirs}


@pytest.mark.parametrize(
    ("master", "set_to", "setting", "python"),
    [
        ("spark://h", "", None, sys.executable),
        ("spark://h", "./environment/bin/python", None, "./environment/bin/python"),
        ("local-cluster[2,1,1024]", "a", {"spark.pyspark.python": "b"}, "b"),
        ("local", "a", {"spark.pyspark.python": "b"}, sys.executable),
        ("local[2]", "a", None, sys.executable),
    ],
)
def test_a_cluster_runs_the_python_that_is_named_for_it(
    of_spark, tmp_path, monkeypatch, master, set_to, setting, python
):
    monkeypatch.setenv("PYSPARK_PYTHON", set_to)
    with Launch(settings_for(master, tmp_path, conf=setting), tmp_path / "spark.log") as launch:
        launch.context()
    assert (os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"]) == (python, sys.executable)
    wait_until_stopped()


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
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert archive_options("/no/java") == ""
    archive_place("/no/java").touch()
    assert archive_options("/no/java").startswith(f"-XX:SharedArchiveFile={tmp_path}/drainq/spark-")
    assert archive_place("/other/java") != (here := archive_place("/no/java"))
    monkeypatch.setattr(pyspark, "__file__", "/another/pyspark/__init__.py")
    assert archive_place("/no/java") != here


@pytest.fixture
def launched(monkeypatch):
    """Starts no Spark: the start is what the test hands over. Returns the Launch."""
    monkeypatch.setattr(spark_session, "_stopping", [])

    def launch(start, **more):
        monkeypatch.setattr(Launch, "_start", start)
        return Launch({}, "no.log", **more)

    return launch


def test_a_start_that_fails_is_told_to_who_waits_for_it(launched):
    def fails(_):
        raise UserError("no Java")

    with pytest.raises(UserError, match="no Java"), launched(fails) as launch:
        launch.context()
    wait_until_stopped()


def test_at_the_end_of_a_process_a_start_that_never_ends_is_not_waited_for(launched):
    never = threading.Event()
    with launched(lambda _: never.wait()):
        """The command is interrupted."""
    try:
        Call(lambda: wait_until_stopped(0.01)).result()
    finally:
        never.set()


def test_spark_is_stopped_once_and_waited_for(launched):
    let_go, stops = threading.Event(), []
    context = SimpleNamespace(stop=lambda: let_go.wait(60) and stops.append("stopped"))
    with launched(lambda _: context) as launch:
        assert launch.context() is context
        launch.stop()
    assert len(spark_session._stopping) == 1 and stops == []
    let_go.set()
    wait_until_stopped()
    assert stops == ["stopped"] and spark_session._stopping == []


@pytest.fixture
def of_spark(monkeypatch, tmp_path):
    """Starts no Java: returns the settings and the log of each start, in a list."""
    pyspark, java = pytest.importorskip("pyspark"), pytest.importorskip("pyspark.java_gateway")
    starts = []

    class Context:
        _gateway = None

        def __init__(self, conf, gateway):
            if dict(conf.getAll())["spark.master"] == "local[none]":
                raise RuntimeError("\n could not parse\n at Java")
            starts.append((dict(conf.getAll()), gateway["stdout"].name, gateway["stderr"].name))
            self._accumulatorServer = SimpleNamespace(handle_error=None)

        def stop(self):
            starts.append("stopped")

    monkeypatch.setattr(pyspark, "SparkContext", Context)
    monkeypatch.setattr(java, "launch_gateway", lambda conf, streams: streams)
    monkeypatch.setattr(spark_session, "java_home", lambda: "/java")
    monkeypatch.setattr(spark_session, "archive_options", lambda home: f"-archive={home}")
    monkeypatch.setattr("pyspark.sql.SparkSession", lambda context: context)
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP", "JAVA_HOME"):
        monkeypatch.setenv(name, "")
    return starts


def test_spark_starts_with_its_settings_for_this_python_and_this_machine(of_spark, tmp_path):
    log, local, far = tmp_path / "spark.log", settings_for("local[2]", tmp_path), settings_for("spark://h", tmp_path)
    for settings, more in ((local, {}), (local, {"use_archive": False}), (far, {})):
        with Launch(settings, log, **more) as launch:
            assert launch.context()._accumulatorServer.handle_error(None, None) is None
        wait_until_stopped()
    option = "spark.driver.extraJavaOptions"
    with_archive = {**local, option: f"{local[option]} -archive=/java"}
    assert of_spark == [it for each in (with_archive, local, far) for it in ((each, str(log), str(log)), "stopped")]
    python, ip = sys.executable, "127.0.0.1"
    names = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP", "JAVA_HOME")
    assert [os.environ[name] for name in names] == [python, python, ip, "/java"]
    with open_session("local[1]", log, heap="1g") as session:
        assert session is not None and "spark.python.daemon.module" in local
    assert of_spark[-1] == "stopped" and of_spark[-2][0]["spark.driver.memory"] == "1g"
    assert "spark.python.daemon.module" not in of_spark[-2][0] and "-archive" not in of_spark[-2][0][option]


def test_a_master_with_which_spark_does_not_start_is_named_with_javas_first_line_and_the_log(of_spark, tmp_path):
    with pytest.raises(UserError) as refused, Launch({"spark.master": "local[none]"}, tmp_path / "log") as launch:
        launch.context()
    said = f"Spark does not start with --master 'local[none]': could not parse; see '{tmp_path}/log'"
    assert str(refused.value) == said


def test_py4j_is_quiet_in_the_block_alone(caplog):
    def log():
        for path in ("/x/py4j/java_gateway.py", "/x/mine.py"):
            root.handle(logging.LogRecord("root", logging.ERROR, path, 1, path, (), None))

    root = logging.getLogger()
    with quiet_py4j():
        log()
    assert [record.pathname for record in caplog.records] == ["/x/mine.py"]
    log()
    assert len(caplog.records) == 3


def test_an_error_whose_text_only_java_knew_is_named_by_its_class():
    class OfJava(Exception):
        def __str__(self):
            raise ConnectionRefusedError("Java has ended")

    assert lines_of(OfJava()) == ["OfJava"] == lines_of(OfJava(""))
    assert lines_of(ValueError("\n one \n two")) == ["one", "two"]
    assert lines_of(ValueError("")) == ["ValueError"]
