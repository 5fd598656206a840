"""Fixtures for the tests of the access-log job."""

from __future__ import annotations

import signal
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from drainq.metrics import tables
from drainq.sql import Database

REAL_LOG = Path(__file__).parents[2] / ".." / "shared" / "data" / "apache_access.log"


@pytest.fixture(scope="session")
def real_log() -> Path:
    """10,000 lines of a real server's log, one of them cut off."""
    if not REAL_LOG.exists():
        pytest.skip("the real log is not at ../shared/data/apache_access.log")
    return REAL_LOG.resolve()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Make an empty directory."""
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Make the job's empty tables."""
    with Database(f"sqlite:///{tmp_path}/metrics.db") as database:
        tables.create_tables(database)
        yield database


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Move this machine to another time zone."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def following(tmp_path, monkeypatch):
    """Follows in the test's directory, without a report at the end."""
    pytest.importorskip("pyarrow")
    from tests.metrics.following import Following

    monkeypatch.setattr("drainq.metrics.report.write_report", lambda *_: None)
    return Following(tmp_path)


@pytest.fixture
def ctrl_c() -> Iterator[Callable[[], None]]:
    """Sends Ctrl-C to this process, which raises KeyboardInterrupt then, however the tests were started."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def postgres_database(postgres_url: str) -> Iterator[str]:
    """Yield the URL of a new, empty PostgreSQL database."""
    import psycopg

    name = f"metrics_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        yield urlsplit(postgres_url)._replace(path=f"/{name}").geturl()
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
