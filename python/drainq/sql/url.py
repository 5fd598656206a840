"""Database URLs, in SQLAlchemy's spelling, without SQLAlchemy.

``sqlite:///relative.db``, ``sqlite:////absolute.db``, ``postgresql://user@host/db``,
``postgresql://user@/db?host=DIRECTORY`` (a unix socket).

1. What follows ``sqlite:///`` is the path as it is: no escapes, no options, so any file name can be said.
2. A password is in ``target`` alone: not in the repr, nor in a message made here.
"""

from __future__ import annotations

import enum
import os
import re
from dataclasses import dataclass, field

FORMS = "sqlite:///relative.db, sqlite:////absolute.db or postgresql://user@host/db"


class Dialect(enum.Enum):
    """The SQL that is spoken; the value is the scheme of the URL."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"

    @property
    def placeholder(self) -> str:
        """What stands for a bound value in a statement."""
        return "?" if self is Dialect.SQLITE else "%s"

    def quote(self, identifier: str) -> str:
        """Quote a table or column name, whatever it holds, for a statement with bound values.

        Raises:
            ValueError: the name is empty or holds a NUL, which no database takes.
        """
        if not identifier or "\0" in identifier:
            raise ValueError(f"a table or column name must have characters and no NUL, got {identifier!r}")
        quoted = '"' + identifier.replace('"', '""') + '"'
        return quoted if self is Dialect.SQLITE else quoted.replace("%", "%%")


@dataclass(frozen=True)
class DatabaseUrl:
    """Which database, in which dialect.

    Args:
        dialect: the SQL it speaks.
        target: the file's path (SQLite) or the connection URI as libpq reads it (PostgreSQL).
    """

    dialect: Dialect
    target: str = field(repr=False)

    @classmethod
    def parse(cls, url: str) -> DatabaseUrl:
        """Read a URL.

        Raises:
            ValueError: not one of the forms; the message shows the URL without its password.

        Example:
            >>> DatabaseUrl.parse("sqlite:////var/lib/metrics.db").target
            '/var/lib/metrics.db'
            >>> print(DatabaseUrl.parse("postgresql://me:secret@db/metrics"))
            postgresql://me:***@db/metrics
        """
        scheme, separator, rest = url.partition("://")
        if separator and scheme == "sqlite" and rest.startswith("/") and len(rest) > 1 and "\0" not in rest:
            if rest[1:] == ":memory:":
                raise ValueError(f"{url!r} is a database that nobody could read afterwards; use {FORMS}")
            return cls(Dialect.SQLITE, rest[1:])
        if separator and scheme in ("postgresql", "postgres", "postgresql+psycopg") and rest:
            return cls(Dialect.POSTGRESQL, f"postgresql://{rest}")
        raise ValueError(f"not a database URL: {without_password(url)!r}; use {FORMS}")

    @classmethod
    def sqlite(cls, path: str | os.PathLike[str]) -> DatabaseUrl:
        """The SQLite database in a file, whatever its name."""
        return cls(Dialect.SQLITE, os.fspath(path))

    def __str__(self) -> str:
        if self.dialect is Dialect.SQLITE:
            return f"sqlite:///{self.target}"
        return without_password(self.target)


def without_password(text: str) -> str:
    """Put ``***`` where a URL or a driver's message has a password."""
    text = re.sub(r"(://[^:/@\s]*):[^@/\s]*@", r"\1:***@", text)
    return re.sub(r"(password=)[^&\s]*", r"\1***", text, flags=re.IGNORECASE)
