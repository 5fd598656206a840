"""Whatever fails on a real Spark, the totals are exact.

Some run on the session of the other tests. The others start a cluster of two executors, a master with two workers, Spark
Connect, and a daemon that has threads before it forks, and wait for Spark's idle kill.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("psutil")

import fault_cases as cases  # beside this file

from drainq.errors import DrainqError
from drainq.spark.java import java_home

pytestmark = pytest.mark.system

DRIVER = Path(__file__).with_name("fault_driver.py")


@pytest.fixture(scope="module", autouse=True)
def cases_travel(spark):
    from pyspark.cloudpickle import register_pickle_by_value

    register_pickle_by_value(cases)


@pytest.mark.parametrize("act", [cases.fail, cases.kill_worker])
def test_a_sink_whose_task_dies_loses_nothing(spark, tmp_path, act):
    cases.sink_survives(spark, tmp_path, act)


def test_plans_that_run_a_function_again_or_in_part_are_exact(spark, tmp_path):
    cases.shapes_are_exact(spark, tmp_path)


def test_rdds_that_are_sorted_run_the_function_again_and_are_exact(spark, tmp_path):
    cases.rdds_are_exact(spark, tmp_path)


def test_a_sink_that_is_cancelled_ends_and_the_next_one_is_exact(spark, tmp_path):
    cases.cancel_ends_a_sink(spark, tmp_path)


LAST_CASE = {
    "idle": "sink_survives-no_fault",  # it waits a minute for Spark, meanwhile the others run
    "cluster": "sink_survives-kill_executor",
    "no_reuse": "preloaded",
    "speculation": "sink",
    "connect": "data source",
}


@contextmanager
def driver(scenario, folder, java):
    """A process that runs the cases of a scenario. Its output is in the files ``out`` and ``err`` of the folder."""
    (logs := folder / "logs").mkdir(parents=True)
    environment = {**os.environ, "JAVA_HOME": java, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"FAULT_LOGS": str(logs), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(DRIVER), scenario, str(folder)]
    with (
        open(folder / "out", "w") as out,
        open(folder / "err", "w") as err,
        subprocess.Popen(command, env=environment, stdout=out, stderr=err) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.usefixtures("own_limit")
def test_totals_are_exact_on_other_masters(tmp_path):
    pytest.importorskip("grpc_status")
    try:
        java = java_home()
    except DrainqError as missing:
        pytest.skip(str(missing))
    first, *others = LAST_CASE
    with driver(first, tmp_path / first, java) as idle:
        for scenario in others:
            with driver(scenario, tmp_path / scenario, java) as process:
                process.wait(900)
        idle.wait(900)
    wrong = []
    for scenario, last in LAST_CASE.items():
        printed = (tmp_path / scenario / "out").read_text()
        if printed.splitlines()[-2:] != [last, "done"]:
            wrong.append(f"--- {scenario}\n{printed}{(tmp_path / scenario / 'err').read_text()[-6000:]}")
    assert not wrong, "\n".join(wrong)
