"""Whatever fails on a real Spark, the totals are exact.

Some run on the session of the other tests. The others start a cluster of two executors, a master with two workers, Spark
Connect, and a daemon that has threads before it forks, and wait for Spark's idle kill.
"""

from __future__ import annotations

import os
import subprocess
import sys
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
    "cluster": "sink_survives-kill_executor",
    "no_reuse": "preloaded",
    "speculation": "sink",
    "connect": "data source",
    "idle": "sink_survives-no_fault",
    "flat": "tasks_leave_a_worker_flat",
}


@pytest.mark.usefixtures("own_limit")
@pytest.mark.parametrize("scenario", LAST_CASE)
def test_totals_are_exact_on_other_masters(scenario, tmp_path):
    if scenario == "connect":
        pytest.importorskip("grpc_status")
    try:
        java = java_home()
    except DrainqError as missing:
        pytest.skip(str(missing))
    folder, logs = tmp_path / "folder", tmp_path / "logs"
    folder.mkdir()
    logs.mkdir()
    environment = {**os.environ, "JAVA_HOME": java, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    ended = subprocess.run(
        [sys.executable, str(DRIVER), scenario, str(folder)],
        env={**environment, "FAULT_LOGS": str(logs), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert ended.stdout.splitlines()[-2:] == [LAST_CASE[scenario], "done"], ended.stdout + ended.stderr[-6000:]
