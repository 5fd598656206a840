"""Fixtures for the tests of the workers, with a limit for each wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from drainq.sql import Database
from tests.time_limit import SECONDS, each_test_within

time_limit = each_test_within(2 * SECONDS)  # some start a server


@pytest.fixture
def table(tmp_path: Path):
    """Makes a table in a new SQLite database; returns the URL. ``rows(url)`` reads it back, in order."""
    url = f"sqlite:///{tmp_path}/workers.db"

    def make(columns: str) -> str:
        with Database(url) as database:
            database.execute(f"CREATE TABLE t ({columns})")
        return url

    return make


@pytest.fixture
def rows():
    """Reads the table ``t`` of a database, in order."""

    def read(url: str) -> list[tuple]:
        with Database(url) as database:
            return sorted(database.execute("SELECT * FROM t"))

    return read
