"""From a URL to the storage that it names.

URLs are SQLAlchemy's: ``sqlite:///relative.db``, ``sqlite:////absolute.db``, ``postgresql://user@host/db``; and
``memory:`` for this process alone. The drivers are imported here, when they are asked for.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path

from drainq.delayed.config import RetryConfig, TimeConfig
from drainq.delayed.memory import MemoryStorage
from drainq.delayed.sql.names import Names
from drainq.delayed.storage import Storage

_POSTGRES = re.compile(r"postgres(?:ql)?(?:\+psycopg)?://")


def without_password(url: str) -> str:
    """The URL as it may be shown.

    Example:
        >>> without_password("postgresql://ann:secret@db/mail?password=secret")
        'postgresql://ann:***@db/mail?password=***'
    """
    url = re.sub(r"(://[^:/@?]*:)[^@]*@", r"\1***@", url)
    return re.sub(r"((?:password|sslpassword)=)[^&\s]*", r"\1***", url)


def open_storage(url: str, *, table: str, time: TimeConfig, retry: RetryConfig) -> tuple[Storage, Hashable]:
    """Return the storage that ``url`` names, and an address that two names of the same one have in common.

    Raises:
        ValueError: the URL names no back end.
        ImportError: the back end's driver is not installed.
    """
    if not isinstance(url, str):
        raise TypeError(f"a URL must be a str, got {url!r}")
    Names(table)  # a bad name is the same error on every back end
    if url == "memory:":
        memory = MemoryStorage()
        return memory, id(memory)
    if url.startswith("sqlite://"):
        from drainq.delayed.sqlite import SQLiteStorage

        path = url[len("sqlite://") :]
        if path in ("", "/", "/:memory:"):
            file = SQLiteStorage(":memory:", table=table, busy_timeout=retry.try_timeout)
            return file, id(file)
        if not path.startswith("/"):
            raise ValueError(
                f"an SQLite URL has three slashes before a relative path, four before an absolute one, got {url!r}"
            )
        file = SQLiteStorage(path[1:], table=table, busy_timeout=retry.try_timeout)
        return file, ("sqlite", str(Path(path[1:]).resolve()), table)
    if _POSTGRES.match(url):
        from drainq.delayed.postgres import PostgresStorage

        libpq = _POSTGRES.sub("postgresql://", url, count=1)
        server = PostgresStorage(libpq, table=table, poll_period=time.poll_period, try_timeout=retry.try_timeout)
        return server, ("postgresql", libpq, table)
    shown = without_password(url)
    raise ValueError(
        f"a delayed queue's URL is 'memory:', 'sqlite:///file.db' or 'postgresql://user@host/db', got {shown!r}"
    )
