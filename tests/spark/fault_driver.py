"""Runs fault cases on a master, in a process of its own.

usage: fault_driver.py SCENARIO FOLDER

It prints the name of each case that it has run; the last line is ``done``.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import fault_cases as cases  # noqa: E402
from pyspark import SparkContext  # noqa: E402
from pyspark.cloudpickle import register_pickle_by_value  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

register_pickle_by_value(cases)
register_pickle_by_value(sys.modules[__name__])
PYTHONPATH = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])


@contextlib.contextmanager
def session(master, **settings):
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = (
        builder.config("spark.ui.showConsoleProgress", "false")
        .config("spark.executorEnv.PYTHONPATH", PYTHONPATH)
        .config("spark.sql.shuffle.partitions", "2")
    )
    for name, value in settings.items():
        builder = builder.config(name.replace("_", "."), value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")
    try:
        yield spark
    finally:
        spark.stop()


def run(spark, folder, case, *more):
    below = Path(folder) / "-".join([case.__name__, *(act.__name__ for act in more)])
    below.mkdir(parents=True)
    case(spark, str(below), *more)
    print(below.name, flush=True)


def cluster(folder):
    """Two executors, each a Java process: a task's worker dies, and a whole executor. Elsewhere handlers fail, too."""
    with session("local-cluster[2,1,1024]") as spark:
        for act in (cases.kill_worker, cases.kill_executor):
            for case in (cases.aggregate_survives, cases.sink_survives):
                run(spark, folder, case, act)


def no_reuse(folder):
    """Use a new Python worker for each task, forked from a daemon with threads and resources of drainq."""
    os.environ["PYTHONPATH"] = PYTHONPATH
    settings = {"spark_python_worker_reuse": "false", "spark_python_daemon_module": "preloading_daemon"}
    with session("local[2,4]", **settings) as spark:
        run(spark, folder, cases.aggregate_survives, cases.fail)
        run(spark, folder, cases.sink_survives, cases.kill_worker)
        found = spark.sparkContext.parallelize(range(2), 2).mapPartitions(preloaded).collect()
        assert found == [(True, [], False)] * 2, found
        print("preloaded", flush=True)


def preloaded(rows):
    """In a worker: the daemon's module is there, its items are not, and its resource is made anew."""
    from drainq.spark import worker_resource

    module = sys.modules.get("__main__")
    parents = getattr(module, "queue", None)
    seen = []
    with worker_resource("preloaded", lambda: seen) as own:
        yield (parents is not None, own, own is not seen)


def speculation(folder):
    """Let a task hang: its copy on the other of two workers overtakes it, and Spark kills it."""
    with standalone() as master:
        settings = {
            "spark_speculation": "true",
            "spark_speculation_interval": "200ms",
            "spark_speculation_multiplier": "1.1",
            "spark_speculation_quantile": "0.5",
            "spark_speculation_minTaskRuntime": "500ms",
            "spark_speculation_efficiency_enabled": "false",
            "spark_driver_host": "127.0.0.1",
            "spark_executor_memory": "600m",
        }
        with session(master, **settings) as spark:
            marks = Path(folder) / "marks"
            marks.mkdir()

            def hang(info):
                (marks / f"{info.partition}-{info.attempt}").touch()
                if info.partition == 3:
                    end = time.monotonic() + 300  # the copy waits, too: it may come here before the original
                    while time.monotonic() < end and (info.attempt == 0 or not (marks / "3-0").exists()):
                        time.sleep(0.05)

            cases.check(cases.aggregated(cases.numbers(spark), hang).collect())
            assert (marks / "3-0").exists() and (marks / "3-1").exists(), sorted(marks.iterdir())
            print("aggregate", flush=True)
            for mark in marks.iterdir():
                mark.unlink()
            file = cases.table(folder)
            report = cases.sink(
                cases.numbers(spark), lambda info: cases.Table(file, info, hang), threads=2, max_batch_rows=200
            )
            assert (marks / "3-0").exists() and (marks / "3-1").exists(), sorted(marks.iterdir())
            assert (report.rows, report.errors) == (cases.ROWS, 0)
            cases.check_table(file)
            print("sink", flush=True)


@contextlib.contextmanager
def standalone():
    """Yield a master with two workers, which Spark takes for two machines."""
    import pyspark

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    java = [f"{os.environ['JAVA_HOME']}/bin/java", "-Xmx256m", "-cp", f"{Path(pyspark.__file__).parent}/jars/*"]
    opens = [
        f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.lang", "java.nio", "sun.nio.ch", "java.util")
    ]
    java[1:1] = opens
    deploy = "org.apache.spark.deploy"
    started = []
    home = str(Path(pyspark.__file__).parent)
    (core,) = Path(home, "jars").glob("spark-core_*.jar")
    scala = core.name.split("_")[1].split("-")[0]
    environment = {**os.environ, "SPARK_HOME": home, "SPARK_SCALA_VERSION": scala}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": PYTHONPATH}

    def start(*command):
        log = open(f"{os.environ['FAULT_LOGS']}/{len(started)}.log", "w")
        started.append(subprocess.Popen([*java, *command], env=environment, stdout=log, stderr=log))

    try:
        start(f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        wait_for(port)
        for host in ("127.0.0.1", "127.0.0.2"):
            work = f"{os.environ['FAULT_LOGS']}/work-{host}"
            where = ["--host", host, "--webui-port", "0", "-c", "2", "-m", "700m", "-d", work]
            start(f"{deploy}.worker.Worker", *where, f"spark://127.0.0.1:{port}")
        yield f"spark://127.0.0.1:{port}"
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


def wait_for(port):
    for _ in range(600):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        threading.Event().wait(0.1)
    raise TimeoutError("the master does not answer")


def connect(folder):
    """Run tasks of two sessions of Spark Connect, in separate workers."""
    os.environ["PYTHONPATH"] = PYTHONPATH
    SparkContext._ensure_initialized()  # the Java process starts without the next variable
    os.environ["SPARK_TESTING"] = "1"  # has the server take any free port, and the clients find it
    first = SparkSession.builder.remote("local[2,4]").getOrCreate()
    second = SparkSession.builder.remote("sc://localhost").create()
    assert first.session_id != second.session_id
    results = []
    for name, spark in (("first", first), ("second", second)):
        below = Path(folder) / name
        below.mkdir()
        thread = threading.Thread(
            target=lambda spark=spark, below=below: results.append(
                [
                    cases.aggregate_survives(spark, below, cases.fail),
                    cases.sink_survives(spark, below, cases.kill_worker),
                ]
            )
        )
        thread.start()
        thread.join()
        print(name, flush=True)
    assert len(results) == 2
    from drainq.delayed import DelayedQueue
    from drainq.spark import register

    register(second)
    url = f"sqlite:///{folder}/queue.db"
    rows = second.range(100).selectExpr("concat('k', id) AS key", "'p' AS payload")
    rows.write.format("drainq").mode("append").options(url=url, queue="q").save()
    with DelayedQueue.open(url, "q") as queue:
        assert queue.stats().ready == 100
    print("data source", flush=True)
    first.stop()


def idle(folder):
    """Let a worker idle: a resource closes itself before Spark ends the worker, which runs no clean-up."""
    closed, pids = f"{folder}/closed", f"{folder}/pids"

    def use(rows):
        from drainq.spark import worker_resource

        with worker_resource("idle", lambda: [os.getpid()], lambda _: Path(closed).touch(), idle_close=5):
            with open(pids, "a") as file:
                file.write(f"{os.getpid()}\n")
        yield from rows

    with session("local[1]") as spark:
        assert spark.sparkContext.parallelize(range(3), 1).mapPartitions(use).count() == 3
        (pid,) = map(int, Path(pids).read_text().split())
        for _ in range(1500):
            if not os.path.exists(f"/proc/{pid}"):
                break
            threading.Event().wait(0.1)
        assert not os.path.exists(f"/proc/{pid}"), "Spark did not end the idle worker"
        assert os.path.exists(closed)
        print("closed", flush=True)
        run(spark, folder, cases.sink_survives, cases.no_fault)


if __name__ == "__main__":
    {each.__name__: each for each in (cluster, no_reuse, speculation, connect, idle)}[sys.argv[1]](sys.argv[2])
    print("done", flush=True)
