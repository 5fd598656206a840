"""Fixtures that more than one part of the tests uses."""

from __future__ import annotations

import faulthandler
import gc
import os
import re
import signal
import sys
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from drainq import _native
from drainq.delivery.worker import Worker
from tests.postgres import PostgresServer, running_server, without_postgres
from tests.shape.project import ROOT
from tests.spark_session import sessions

_USES_SPARK = re.compile(r"\bdef \w+\([^)]*\bspark\b").search

settings.register_profile("drainq", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("drainq")  # no test asserts a time, so a generated example may take as long as it takes

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a background job of a shell, and so in all its processes
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each worker whole files. One worker gets all files that use Spark, so that there is one Spark session."""
    from xdist.scheduler import LoadFileScheduling

    class OneSpark(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "spark" if file in files else file

    tests = [(path.relative_to(ROOT), path.read_text(encoding="utf-8")) for path in (ROOT / "tests").rglob("test_*.py")]
    files = {path.as_posix() for path, text in tests if _USES_SPARK(text)}
    return OneSpark(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Let pytest-xdist start the files in the order below, instead of those with the fewest tests last."""
    config.option.loadscopereorder = False


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that start a Spark or take minutes, so that none of them runs alone at the end."""
    tests = Counter(item.path for item in items)
    slow = {item.path for item in items if {"own_limit", "spark"} & set(getattr(item, "fixturenames", ()))}
    items.sort(key=lambda item: (item.path not in slow, -tests[item.path]))


def pytest_collection_finish() -> None:
    """Freeze the objects that exist before the tests, so that each garbage collection takes a hundredth of the time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Freeze also the objects that the tests of a file leave behind."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that is marked ``needs_gil`` if there is no GIL, or if the module is compiled for both cases."""
    marker = item.get_closest_marker("needs_gil")
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)() and "abi3t" not in Path(_native.__file__).name
    if marker and not has_gil:
        pytest.skip(f"needs a GIL: {marker.args[0]}")


@pytest.fixture
def own_limit() -> None:
    """Lift pytest's time limit for this test, which ends by itself, after minutes on a busy machine."""
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def gives_up_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``close(timeout)`` of a worker give up a hanging call after a tenth of the timeout. So a busy machine has
    nine tenths of it to keep the unsent items."""
    monkeypatch.setattr("drainq.delivery.worker._margin", lambda timeout, keeps: 0.9 * timeout)


@pytest.fixture(autouse=True)
def workers_end_with_their_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the workers that a test leaves open: their next attempt to send would be in the log of another test."""
    made: weakref.WeakSet[Worker[Any]] = weakref.WeakSet()

    def begin(worker: Worker[Any]) -> None:
        made.add(worker)
        begin_really(worker)

    begin_really = Worker._begin
    monkeypatch.setattr(Worker, "_begin", begin)
    yield
    for worker in list(made):
        if not worker._ended:
            worker.close(0)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Yield the URL of a PostgreSQL database. A test makes its own tables, with names that no other test uses."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        without_postgres("psycopg is not installed: pip install 'drainq[postgres]'")
    named = os.environ.get("DRAINQ_TEST_POSTGRES")
    if named:
        yield named
        return
    with running_server() as server:
        yield server.url


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """Yield a PostgreSQL server that the test may stop, crash and start again."""
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield a Spark session in local mode, one for the whole run."""
    yield from sessions(tmp_path_factory.mktemp("spark"))
