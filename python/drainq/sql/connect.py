"""Opens connections to databases, and imports their drivers at first use.

1. A connection is in autocommit mode: each statement is a transaction, unless the caller groups several by BEGIN.
2. Every wait has an end. Connecting to PostgreSQL ends after ``connect_timeout``. TCP notices a server that fell
   silent: by keepalives while waiting for an answer, by ``tcp_user_timeout`` while sending. Parameters of the URL
   overrule these settings.
3. Text travels between PostgreSQL and a connection as UTF-8, whatever the environment, the URL, the role or the
   database set. The server converts it to the database's encoding, or refuses characters that the encoding lacks.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import quote as percent_encoded

from drainq.sql.url import DatabaseUrl

if TYPE_CHECKING:
    import sqlite3

LOCK_TIMEOUT = 60.0  # seconds that a SQLite connection waits for another's transaction to end
CONNECT_TIMEOUT = 10.0  # seconds that an attempt to reach PostgreSQL may take

_SILENCE = {
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds
}
"""The limits after which a silent server is given up: about a minute when idle, or 30 s with data on the way."""


def postgres_driver() -> Any:
    """Import ``psycopg``.

    Raises:
        ImportError: psycopg is not installed. The message names the extra.
    """
    try:
        import psycopg
    except ImportError as missing:
        raise ImportError(f"PostgreSQL needs a driver: pip install 'drainq[postgres]' ({missing})") from missing
    return psycopg


def connect(url: DatabaseUrl) -> Any:
    """Open a connection as the driver makes it.

    Raises:
        ImportError: the driver is not installed.
        sqlite3.Error, psycopg.Error: the database cannot be opened.
    """
    return url.dialect.connect(url.target, url.secrets)


def connect_sqlite(
    path: str, *, lock_timeout: float = LOCK_TIMEOUT, write_ahead: bool = False, cached_statements: int = 128
) -> sqlite3.Connection:
    """Open an SQLite file, which is created if it is missing.

    A file without write permission is opened for reading. If its directory is not writable either, the rows of a
    leftover write-ahead log are not seen.

    Args:
        path: the file.
        lock_timeout: seconds to wait for another connection's transaction to end.
        write_ahead: keep a write-ahead log, so that readers work during a write. The file keeps that setting.
        cached_statements: how many parsed statements are kept.
    """
    import sqlite3

    def opened(name: str, *, uri: bool) -> sqlite3.Connection:
        return sqlite3.connect(
            name,
            timeout=lock_timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=cached_statements,
            uri=uri,
        )

    try:
        connection = opened(path, uri=False)
        try:
            _set_up(connection, write_ahead=write_ahead)
        except sqlite3.OperationalError as error:
            if "readonly" not in str(error) and "unable to open" not in str(error):
                raise
            connection = opened(f"file:{percent_encoded(os.path.abspath(path))}?mode=ro&immutable=1", uri=True)
            _set_up(connection, write_ahead=False)
    except sqlite3.Error as error:
        folder = os.path.dirname(os.path.abspath(path))
        missing = "" if os.path.isdir(folder) else f"; there is no directory {folder!r}"
        error.args = (f"{error}: {path!r}{missing}",)
        raise
    return connection


def _set_up(connection: sqlite3.Connection, *, write_ahead: bool) -> None:
    """Set up a new connection, or close it and raise."""
    try:
        if write_ahead:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except Exception as error:
                if "readonly" not in str(error):
                    raise
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # raises if the file is no database
    except BaseException:
        connection.close()
        raise


def connect_postgres(
    url: DatabaseUrl, *, timeout: float | None = None, options: str = "", connection_class: Any = None
) -> Any:
    """Connect to PostgreSQL.

    Args:
        url: the address. Its timeouts and keepalives overrule those set here. The client encoding is always UTF-8.
            If neither the URL nor ``PGAPPNAME`` has a name, the server shows the connection as ``drainq``.
        timeout: seconds, rounded, for each attempt to reach a host; at least 1. None: 10.
        options: settings for the session, as ``-c name=value``. Those of the URL overrule them.
        connection_class: a :class:`~drainq.sql.postgres_connection.PostgresConnection`; None: a ``CuttableConnection``.
    """
    psycopg = postgres_driver()
    said = psycopg.conninfo.conninfo_to_dict(url.target)
    settings: dict[str, Any] = {name: value for name, value in _SILENCE.items() if name not in said}
    settings["client_encoding"] = "UTF8"
    settings["fallback_application_name"] = said.get("fallback_application_name", "drainq")
    if "connect_timeout" not in said:
        settings["connect_timeout"] = max(1, round(CONNECT_TIMEOUT if timeout is None else timeout))
    if options:
        settings["options"] = f"{options} {said.get('options', '')}".strip()
    if connection_class is None:
        from drainq.sql.postgres_connection import CuttableConnection as connection_class
    return connection_class.connect(url.target, autocommit=True, **settings, **dict(url.secrets))
