"""Opens the storage of a URL: ``memory:`` for this process alone, or a database's URL.

It imports a driver when a URL needs it.
"""

from __future__ import annotations

import importlib
from collections.abc import Hashable
from dataclasses import replace
from typing import Any, cast

from drainq.delayed.config import RetryConfig, TimeConfig
from drainq.delayed.database_retry import RareWarning, with_retries
from drainq.delayed.storage.base import Storage
from drainq.delayed.storage.options import BackEnd, StorageOptions
from drainq.delayed.storage.table_names import TableNames
from drainq.sql.url import DatabaseUrl

BACK_ENDS = {
    "sqlite": "drainq.delayed.storage.sqlite.back_end",
    "postgresql": "drainq.delayed.storage.postgres.back_end",
}
"""The module that opens a storage, by the name of its dialect; a new back end is a folder and a line here."""


def open_storage(
    url: str,
    *,
    table: str,
    time: TimeConfig,
    retry: RetryConfig,
    max_connections: int = 10,
    prepare: bool | None = None,
    as_it_is: bool = False,
) -> tuple[Storage, Hashable]:
    """Return the storage of ``url``, and an address that is equal for all names of one storage.

    This does not connect: see :func:`reach`. ``as_it_is``: connecting changes nothing in the database.

    Raises:
        ValueError: the URL names no back end.
        ImportError: the back end's driver is not installed.
    """
    TableNames(table)  # a bad name is the same error on every back end
    if url == "memory:":
        from drainq.delayed.storage.sqlite.storage import MemoryStorage  # SQLite is imported when it is asked for

        memory = MemoryStorage()
        return memory, id(memory)
    options = StorageOptions(table, time.poll_period, retry.try_timeout, max_connections, prepare, as_it_is)
    where = DatabaseUrl.parse(url)
    address = (where.dialect.name, where.dialect.address(where.target), table)
    back_end: BackEnd = cast(Any, importlib.import_module(BACK_ENDS[where.dialect.name]))
    return back_end.open_at(where, options), address


def open_empty(*, table: str) -> Storage:
    """Return an empty storage without tables, in place of a missing SQLite file."""
    from drainq.delayed.storage.sqlite.storage import SQLiteStorage

    return SQLiteStorage(":memory:", table=table, busy_timeout=None, write_ahead=False)


def reach(storage: Storage, retry: RetryConfig, *, migrate: bool) -> list[str]:
    """Connect, and bring the tables up to date if ``migrate``. Try again while the database starts or is locked.

    Returns:
        The names of the migrations that were applied.

    Raises:
        QueueUnavailable: the database kept failing for the time of ``retry``.
        QueueBroken: the database refuses for a reason that waiting does not change.
    """
    with_retries(storage.connect, retry, storage.is_transient)
    if not migrate:
        return []
    # A lock that is not to be had in a second is given up on, to let the others pass; so there are more tries.
    patient = retry if retry.max_retries == 0 or retry.total_timeout is None else replace(retry, max_retries=None)
    return with_retries(storage.migrate, patient, storage.is_transient, warn=RareWarning())
