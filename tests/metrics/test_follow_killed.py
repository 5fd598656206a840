"""A following command is killed before or after a commit. The next one continues, and each line counts once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pygal")

from drainq.errors import DrainqError
from drainq.metrics.job import run
from drainq.spark.java import java_home
from tests.metrics.logs import contents, lines, write

pytestmark = pytest.mark.system

DRIVER = Path(__file__).with_name("follow_driver.py")
LINES = 1500


def drive(*arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(
        [sys.executable, str(DRIVER), *map(str, arguments)],
        env=environment, capture_output=True, text=True, timeout=540, check=False,
    )  # fmt: skip


@pytest.mark.usefixtures("own_limit")
@pytest.mark.parametrize("engine", ["local", "file", "spark"])
def test_each_line_counts_once_whichever_side_of_a_commit_the_kills_are_on(tmp_path, engine):
    if engine == "spark":
        pytest.importorskip("pyspark")
        try:
            java_home()
        except DrainqError as missing:
            pytest.skip(str(missing))
    logs = tmp_path / "logs"
    logs.mkdir()
    written = lines(LINES, 3)
    kills, parts = [("before", 1), ("after", 1), ("before", 2), ("after", 2)], 12
    if engine == "spark":  # it starts slowly, and commits as "local" does
        kills, parts = kills[1:3], 6
    if engine == "file":
        path, names = logs / "access.log", [write(logs / "access.log", written)]
    else:
        path, names = logs, [write(logs / f"{part}.log", written[part::parts]) for part in range(parts)]
    out = tmp_path / "out"
    for side, number in kills:
        killed = drive(path, out, engine, side, number)
        assert killed.returncode == -signal.SIGKILL, killed
    last = drive(path, out, engine, "never", 0)
    assert last.returncode == 0, last
    assert 0 < int(last.stdout.split()[0]) < LINES
    run(names, out=tmp_path / "whole", engine="local")
    assert contents(f"sqlite:///{out}/metrics.db", sources=engine != "file") == contents(
        f"sqlite:///{tmp_path}/whole/metrics.db", sources=engine != "file"
    )
