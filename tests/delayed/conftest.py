"""One world a test: a place for queues, on each back end in turn, with a clock that the test moves."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from drainq.delayed import DelayedQueue, TimeConfig
from drainq.testing import ManualClock
from tests.own_log import caplog  # noqa: F401

_tables = itertools.count(1)

BACKENDS = ("sqlite", "postgresql")
"""The memory is an SQLite database without a file; :mod:`tests.delayed.test_memory` runs what is different there."""

ENCODINGS = ("LATIN1", "SQL_ASCII")
"""Of databases, beside UTF8, which that of the other tests has."""

IN_EVERY_ENCODING = {"test_encodings", "test_storage_calls", "test_dead_letters", "test_history", "test_once"}
"""Modules whose tests run on a database of each encoding, too: together they make every kind of call."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each back end."""
    for fixture, backends in (("world", BACKENDS), ("open_queue", BACKENDS), ("postgres", BACKENDS[1:])):
        if fixture in metafunc.fixturenames:
            if metafunc.module.__name__.rpartition(".")[2] in IN_EVERY_ENCODING:
                backends = (*backends, *(f"postgresql {encoding}" for encoding in ENCODINGS))
            metafunc.parametrize(fixture, backends, indirect=True)


class World:
    """A back end, and the queues that a test opens on it.

    Args:
        backend: one of ``BACKENDS``.
        url: where the back end is.
    """

    def __init__(self, backend: str, url: str, table: str) -> None:
        self.backend = backend
        self.url = url
        self.table = table
        self.clock = ManualClock()
        self.time = TimeConfig(acquire_timeout=30.0, poll_period=0.1)
        self._opened: list[DelayedQueue[Any]] = []
        self.tables = {table}

    def open(self, queue: str = "mail", *, table: str | None = None, **options: Any) -> DelayedQueue[Any]:
        """Open a queue; a second one of the same name and table sees the same messages."""
        table = self.table if table is None else table
        self.tables.add(table)
        options = {"clock": self.clock, "time": self.time, **options}
        opened: DelayedQueue[Any] = DelayedQueue.open(self.url, queue, table=table, **options)
        self._opened.append(opened)
        return opened

    @property
    def now(self) -> float:
        """Return the clock's time."""
        return self.clock.now()

    def close(self) -> None:
        """Close what was opened."""
        for queue in self._opened:
            queue.close()

    def lose_the_priority_index(self) -> None:
        """Leave PostgreSQL's table as it is if an older transaction stood in the way of the index for priorities."""
        if self.backend == "postgresql":
            import psycopg

            with psycopg.connect(self.url) as connection:
                connection.execute(f'DROP INDEX "{self.table}__KindPlusPriorityIndex"')
                connection.execute(f'DELETE FROM "{self.table}__migrations" WHERE "number" = 11')


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path) -> Iterator[World]:
    """Yield a world on each back end in turn."""
    yield from make_world(request.param, request, tmp_path)


@pytest.fixture
def database(world: World) -> World:
    """Return the same, for a test that looks into the database itself."""
    return world


@pytest.fixture
def sqlite(request: pytest.FixtureRequest, tmp_path) -> Iterator[World]:
    """Yield a world in an SQLite file."""
    yield from make_world("sqlite", request, tmp_path)


@pytest.fixture
def postgres(request: pytest.FixtureRequest, tmp_path) -> Iterator[World]:
    """Yield a world on PostgreSQL."""
    yield from make_world(request.param, request, tmp_path)


@pytest.fixture
def queue(world: World) -> DelayedQueue[Any]:
    """Return a queue on each back end in turn."""
    return world.open()


def make_world(backend: str, request: pytest.FixtureRequest, tmp_path) -> Iterator[World]:
    backend, _, encoding = backend.partition(" ")
    url = f"sqlite:///{tmp_path}/queue.db"
    if backend == "postgresql":
        url = url_of(request.getfixturevalue("postgres_url"), encoding)
    made = World(backend, url, f"dq_{next(_tables)}")
    try:
        yield made
    finally:
        made.close()
        if backend == "postgresql":
            _drop_tables(url, made.tables)


@functools.cache
def url_of(url: str, encoding: str) -> str:
    """The URL of a database of this encoding, made on the server of ``url`` if it is not there; empty: that of ``url``."""
    import psycopg
    from psycopg import sql

    if not encoding:
        return url
    name = f"drainq_{encoding.lower()}"
    with psycopg.connect(url, autocommit=True) as connection:
        if not connection.execute("SELECT FROM pg_database WHERE datname = %s", (name,)).fetchall():
            create = "CREATE DATABASE {} TEMPLATE template0 ENCODING {} LC_COLLATE 'C' LC_CTYPE 'C'"
            connection.execute(sql.SQL(create).format(sql.Identifier(name), encoding))
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"/{name}"))


def _drop_tables(url: str, tables: set[str]) -> None:
    import psycopg
    from psycopg import sql

    with psycopg.connect(url, autocommit=True) as connection:
        for table in tables:
            for suffix in ("", "__dead", "__cron", "__schedules", "__queues", "__history", "__migrations"):
                drop = sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(table + suffix))
                try:
                    connection.execute(drop)
                except (
                    psycopg.errors.DeadlockDetected,
                    psycopg.errors.InternalError_,
                ):  # the index for priorities was still being built
                    connection.execute(drop)
