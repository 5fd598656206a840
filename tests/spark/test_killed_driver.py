"""A driver dies in the middle of a stream. The next driver continues, and each message is published once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.spark_session import once_python_is_there

pytest.importorskip("pyspark.sql.datasource", reason="the data source needs PySpark 4")
pytest.importorskip("psutil")

from drainq.datasource.stream_reader import ReadMaxRows
from drainq.delayed import DelayedQueue, ScheduledMessage
from drainq.errors import DrainqError
from drainq.spark.java import java_home
from drainq.sql.database import Database

pytestmark = pytest.mark.system

MESSAGES = 900
ASKS_ONCE = ReadMaxRows is None  # PySpark before 4.2: the claims of the last batch stay until the next is planned
DRIVER = Path(__file__).with_name("stream_driver.py")
FAULTS = ["in a task", "after the commit", "after the claim", "before the commit"]


def run(url, checkpoint, fault):
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, str(DRIVER), url, str(checkpoint), fault]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=540, check=False)


def published(url):
    with DelayedQueue.open(url, "out") as queue:
        envelope = queue.try_poll_many(MESSAGES * 2)
        envelope.ack()
        return Counter(envelope.message_id)


@pytest.mark.usefixtures("own_limit")
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_whatever_a_driver_was_at_when_it_died_each_message_is_published_once(database, tmp_path, request, monkeypatch):
    try:
        monkeypatch.setenv("JAVA_HOME", java_home())
    except DrainqError as missing:
        pytest.skip(str(missing))
    url = f"sqlite:///{tmp_path}/queue.db"
    if database == "postgres":
        url = request.getfixturevalue("own_postgres").url
    with DelayedQueue.open(url, "in") as queue:
        queue.offer_batch([ScheduledMessage(f"k{n}", f"of {n}", 1000 + n) for n in range(MESSAGES)])
    counts = Counter()
    for fault in FAULTS:
        ended = run(url, tmp_path / "checkpoint", fault)
        assert ended.returncode != 0, f"{fault}: {ended.stderr[-2000:]}"
        counts += published(url)

    def whole():
        ended = run(url, tmp_path / "checkpoint", "none")
        assert ended.returncode == 0, ended.stderr

    once_python_is_there(whole)
    counts += published(url)
    assert len(counts) == MESSAGES and set(counts.values()) == {1}
    with Database(url) as opened:
        for table in ("stage",) if ASKS_ONCE else ("stage", "claims"):
            assert opened.execute(f'SELECT count(*) FROM "delayed_queue__spark_{table}"') == [(0,)]
    with DelayedQueue.open(url, "in") as queue:
        assert queue.stats().ready == queue.stats().in_flight == 0
