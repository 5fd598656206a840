"""The job on a cluster without a shared disk: logs in HDFS, two executors that do not see the driver's files.

A namenode and a datanode run from one jar, which the Ivy inside PySpark fetches. Each of two workers of a standalone
master has an empty ``/tmp`` of its own, where the driver's and the other's files are not.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from drainq.errors import DrainqError
from drainq.spark.java import java_home
from tests.export.kafka_broker import fetched, free_port
from tests.metrics.logs import contents, lines, write

pytestmark = pytest.mark.system
HOME = Path(pytest.importorskip("pyspark").__file__).parent
PATIENCE = 180.0  # seconds for a start
HDFS = """<configuration>
<property><name>fs.defaultFS</name><value>hdfs://127.0.0.1:{port}</value></property>
<property><name>hadoop.tmp.dir</name><value>{folder}/hdfs</value></property>
<property><name>dfs.replication</name><value>1</value></property>
<property><name>dfs.namenode.http-address</name><value>127.0.0.1:0</value></property>
<property><name>dfs.datanode.address</name><value>127.0.0.1:0</value></property>
<property><name>dfs.datanode.http.address</name><value>127.0.0.1:0</value></property>
<property><name>dfs.datanode.ipc.address</name><value>127.0.0.1:0</value></property>
</configuration>"""
OWN_TMP = "mount -t tmpfs tmpfs /tmp && cd / && exec"


@pytest.fixture
def environment():
    try:
        java = java_home()
    except DrainqError as missing:
        pytest.skip(str(missing))
    return {**os.environ, "JAVA_HOME": java, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"}


@pytest.fixture
def started(tmp_path, environment):
    """Starts a process that ends with the test."""
    with contextlib.ExitStack() as stack:

        def start(*command, log):
            file = stack.enter_context(open(tmp_path / log, "w"))
            process = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def hdfs(tmp_path, environment, started):
    """Yields the URL of an empty HDFS, and a function that runs a command of its shell."""
    try:
        jars = fetched("org.apache.hadoop", "hadoop-client-minicluster", "3.5.0", "hadoop", "master")
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"the jar of a small HDFS cannot be fetched: {type(error).__name__} of Ivy")
    java = [f"{environment['JAVA_HOME']}/bin/java", "-cp", f"{tmp_path}:{jars}/*:{HOME}/jars/*"]
    name, data = (f"org.apache.hadoop.hdfs.server.{node}" for node in ("namenode.NameNode", "datanode.DataNode"))

    def shell(*words):
        return subprocess.run([*java, "org.apache.hadoop.fs.FsShell", *words], env=environment, capture_output=True)

    def settings(port):
        (tmp_path / "core-site.xml").write_text(HDFS.format(port=port, folder=tmp_path))
        return port

    settings(free_port())
    subprocess.run([*java, name, "-format", "-nonInteractive"], env=environment, check=True, capture_output=True)
    for _ in range(3):  # another process may take the port before the node does, and then the node ends
        port = settings(free_port())
        node = started(*java, name, log="namenode")
        until(lambda node=node: node.poll() is not None or shell("-ls", "/").returncode == 0)
        if node.poll() is None:
            break
    started(*java, data, log="datanode")
    until(lambda: shell("-put", str(tmp_path / "core-site.xml"), "/there").returncode == 0)
    yield f"hdfs://127.0.0.1:{port}", shell


@pytest.fixture
def master(environment, started):
    """Yields the URL of a master with two workers."""
    if subprocess.run(["unshare", "-m", "bash", "-c", f"{OWN_TMP} true"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here: root, and unshare and mount are needed")
    spark, port = f"{HOME}/bin/spark-class org.apache.spark.deploy", free_port()
    url, address = f"spark://127.0.0.1:{port}", "--host 127.0.0.1 --webui-port 0"
    started(*f"{spark}.master.Master {address} --port {port}".split(), log="master")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        for number in "12":
            worker = f"{spark}.worker.Worker {address} --cores 1 --memory 1g --work-dir {folder}/{number} {url}"
            started("unshare", "-m", "--kill-child", "bash", "-c", f"{OWN_TMP} {worker}", log=f"worker{number}")
        yield url


def until(is_so):
    turn = threading.Event()
    for _ in range(int(PATIENCE)):
        if is_so():
            return
        turn.wait(1)
    raise AssertionError("it took too long")


def executors_at_work():
    """Find the executors that the workers of this test have started, and not those of another cluster."""
    psutil = pytest.importorskip("psutil")
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any("CoarseGrainedExecutorBackend" in word for word in process.cmdline()):
                found += [process] * any(child.cpu_times().user > 0.5 for child in process.children(recursive=True))
    return found


@pytest.mark.usefixtures("own_limit")
@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("unshare"), reason="needs Linux' namespaces")
def test_the_tables_are_exact_without_a_shared_disk_also_if_an_executor_dies(tmp_path, logs, environment, master, hdfs):
    pytest.importorskip("psutil")
    url, shell = hdfs
    many = lines(20_000, 5)
    write(logs / "a.log", many * 60)
    (logs / "b.log.gz").write_bytes(gzip.compress("\n".join([*lines(5_000, 6), ""]).encode()))
    assert shell("-put", str(logs), "/logs").returncode == 0
    command = [str(Path(sys.executable).with_name("drainq")), "metrics"]
    settings = {"driver.host": "127.0.0.1", "executor.memory": "600m", "sql.files.maxPartitionBytes": "4000000"}
    confs = [word for name, value in settings.items() for word in ("--conf", f"spark.{name}={value}")]
    job = subprocess.Popen(
        [*command, f"{url}/logs/*", "--master", master, "--out", tmp_path / "out", "--quiet", *confs], env=environment
    )
    until(lambda: job.poll() is not None or len(executors_at_work()) == 2)
    executors_at_work()[0].kill()
    assert job.wait(600) == 0
    subprocess.run(
        [*command, *map(str, sorted(logs.iterdir())), "--engine", "local", "--out", tmp_path / "here", "--quiet"],
        env=environment,
        check=True,
    )
    found, here = (contents(f"sqlite:///{tmp_path}/{out}/metrics.db", sources=False) for out in ("out", "here"))
    assert found == here and found["service_minute"]
