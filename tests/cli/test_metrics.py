"""``drainq metrics`` in a new process, with Spark: its output for a log of rubbish, and on Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from drainq.errors import DrainqError
from drainq.spark.java import java_home

pytest.importorskip("pyspark")
pytest.importorskip("pygal")

GOOD = 'h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1\n'
pytestmark = pytest.mark.usefixtures("own_limit")
PATIENCE = 500  # seconds; a limit, not a measure: Spark starts slowly on a busy machine


@pytest.fixture
def metrics(tmp_path):
    """Starts ``drainq metrics`` in a process group of its own, with a directory for temporary files of its own."""
    try:
        java_home()
    except DrainqError as missing:
        pytest.skip(str(missing))
    started = []

    def start(*logs: Path | str) -> subprocess.Popen[str]:
        (tmp_path / "tmp").mkdir(exist_ok=True)
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "drainq.cli", "metrics", *map(str, logs), "--out", str(tmp_path / "out")],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
            )
        )  # fmt: skip
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def test_a_log_of_which_no_line_parses_is_exit_code_1_and_named(metrics, tmp_path):
    good, bad, noise = (tmp_path / name for name in ("good.log", "bad.log", "noise.log"))
    good.write_text(GOOD)
    bad.write_text("not a log line\n" * 81)
    noise.write_bytes(random.Random(1).randbytes(20_000))
    process = metrics(good, bad, noise)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    said = err.splitlines()
    assert len(said) == 2, err
    assert said[0].startswith(
        f"drainq: 81 of 81 lines of {str(bad)!r} are bad, more than 1 %; the first is line 1: no 'client"
    )
    assert str(noise) in said[1]
    assert "report: " in out


@pytest.mark.system
@pytest.mark.parametrize("group", [True, False], ids=["as a terminal sends it", "to the command alone"])
def test_ctrl_c_while_spark_is_at_work_is_exit_code_130_and_one_sentence(metrics, tmp_path, group):
    log = tmp_path / "large.log"
    log.write_text(GOOD * 500_000)
    process = metrics(log)
    deadline, pause = time.monotonic() + PATIENCE, threading.Event()
    while not list((tmp_path / "tmp").glob("drainq-logs-*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        pause.wait(0.05)
    (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    # The signal may reach a worker of Spark while it is being forked: CPython tells that by itself.
    err = re.sub(r"Exception ignored in: <function _after_fork .*?^KeyboardInterrupt: \n", "", err, flags=re.S | re.M)
    assert (process.returncode, out, err) == (130, "", "drainq: interrupted; nothing was loaded\n")


def requests(tmp_path: Path) -> int:
    """Return what is in the tables by now."""
    database = tmp_path / "out" / "metrics.db"
    if not database.exists():
        return 0
    with contextlib.closing(sqlite3.connect(database)) as connection, contextlib.suppress(sqlite3.Error):
        return int(connection.execute("SELECT COALESCE(SUM(requests), 0) FROM service_minute").fetchone()[0])
    return 0


@pytest.mark.system
@pytest.mark.parametrize(
    ("kind", "number", "code"),
    [("file", signal.SIGINT, 130), ("file", signal.SIGTERM, 0), ("local", signal.SIGTERM, 0),
     ("spark", signal.SIGINT, 130), ("spark", signal.SIGTERM, 0)],
)  # fmt: skip
@pytest.mark.parametrize("group", [True, False], ids=["to the group", "to the command alone"])
def test_a_signal_ends_a_following_cleanly(metrics, tmp_path, kind, number, code, group):
    if kind == "spark" and group == (number == signal.SIGINT):
        pytest.skip("the other two of these four are enough, Spark takes long to start")
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "a.log").write_text(GOOD * 7)
    process = metrics(
        "--follow", logs / "a.log" if kind == "file" else logs, *(() if kind == "file" else ("--engine", kind)),
        "--settled", "0", "--every", "0.05",
    )  # fmt: skip
    deadline, pause = time.monotonic() + PATIENCE, threading.Event()
    while requests(tmp_path) < 7:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        pause.wait(0.05)
    (os.killpg if group else os.kill)(process.pid, number)
    out, err = process.communicate(timeout=PATIENCE)
    said = "drainq: interrupted; what was counted is whole, and the next --follow goes on from there\n"
    assert (process.returncode, err) == (code, said if code else "")
    assert "lines    7 read = 7 parsed + 0 bad; 7 requests in the tables: ok" in out
    assert "report: " in out
